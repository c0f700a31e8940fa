"""Requests of other threads to the loop's thread."""

from __future__ import annotations

import selectors
import threading

import pytest

from supervisor.mailbox import Mailbox


@pytest.fixture
def mailbox():
    box = Mailbox()
    yield box
    box.close()


def test_a_question_wakes_the_loop_and_is_answered_in_its_thread(mailbox):
    """ask() makes the selector return; the call runs in the thread that turns."""
    answers = []
    asking = threading.Thread(target=lambda: answers.append(mailbox.ask(threading.get_ident)))
    asking.start()
    with selectors.DefaultSelector() as selector:
        selector.register(mailbox.reader, selectors.EVENT_READ, mailbox.ready)
        for key, mask in selector.select(5):
            key.data(key.fileobj, mask)
        mailbox.turn()
        asking.join(5)
        assert answers == [threading.get_ident()]
        assert selector.select(0) == []


def test_an_error_is_the_asking_threads(mailbox):
    """KeyError in the call is raised by ask(), and the loop goes on."""
    caught = []

    def ask():
        with pytest.raises(KeyError) as info:
            mailbox.ask(lambda: {}["missing"])
        caught.append(info)

    asking = threading.Thread(target=ask)
    asking.start()
    mailbox.reader.setblocking(True)
    mailbox.reader.recv(1)
    mailbox.turn()
    asking.join(5)
    assert len(caught) == 1


def test_a_loop_that_does_not_turn_is_a_timeout(mailbox):
    """ask() gives up after its time."""
    with pytest.raises(TimeoutError):
        mailbox.ask(lambda: None, timeout_s=0.05)


def test_wake_ups_never_block(mailbox):
    """A hundred thousand wake-ups without a turn fill the pipe and return all the same."""
    for _ in range(100_000):
        mailbox.wake()
    mailbox.ready(None, 0)
    with pytest.raises(BlockingIOError):
        mailbox.reader.recv(1)
