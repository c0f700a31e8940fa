"""Imported by the forkserver, last: all that a check may need, so that workers share its memory.

What is collected or counted by the garbage collector in a worker would be copied there: it leaves out what is frozen.
"""

from __future__ import annotations

import encodings.idna
import encodings.latin_1
import gc
import http.client
import ssl
import zlib

import cssselect
import jsonpath
import jsonpath_ng.ext
import lxml.etree
import lxml.html

import supervisor.checkers
import supervisor.checkers.command
import supervisor.checkers.http
import supervisor.expect
import supervisor.pool.child
from supervisor.pool.apart import leave_group
from supervisor.pool.warmup import warm_up

MODULES = (
    encodings.idna,
    encodings.latin_1,
    http.client,
    ssl,
    zlib,
    cssselect,
    jsonpath,
    jsonpath_ng.ext,
    lxml.etree,
    lxml.html,
    supervisor.checkers,
    supervisor.checkers.command,
    supervisor.checkers.http,
    supervisor.expect,
    supervisor.pool.child,
)

leave_group()
warm_up()
gc.collect()
gc.freeze()
