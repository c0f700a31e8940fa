"""Checkvisor's supervisor: from configuration files to stored verdicts and delivered events.

The way of a datum, module by module:

    config/ -> model.ResolvedTarget -> schedule -> loop -> pool -> worker
        worker: checkers/ observe (net, capture), expect/ judges -> model.CheckResult
    -> loop: state.transition, event numbers -> store/write: one transaction -> webui
                                                     \\-> webhook/: outbox -> delivery -> endpoint

`cli` builds and wires the parts; `logs`, `metrics`, `notify` tell what happens; `text` cleans and masks what is shown.
"""

__version__ = "0.1.0"
