"""What every type of target must hold to, over the whole registry. The scenes stand in scenes.py."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from supervisor.checkers import CHECKERS
from supervisor.checkers.base import CheckContext, Outcome, TraceStep
from supervisor.config.types import TARGET_TYPES
from supervisor.deadline import Deadline, DeadlineExpired, alarm
from supervisor.model import ResolvedTarget
from supervisor.worker import run_check
from tests.checkers.scenes import SCENES, Place, Scene, loaded

GRACE_S = 1.5
LATE_S = 0.5
OUTCOMES = ("ok", "failed", "skipped", "info", "warning")

Played = tuple[str, Scene]
ALL = [(kind, scene) for kind, scenes in SCENES.items() for scene in scenes]
every_scene = pytest.mark.parametrize("played", ALL, ids=[f"{kind}: {scene.name}" for kind, scene in ALL])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Where a scene is played."""
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def _target(played: Played, place: Place) -> ResolvedTarget:
    kind, scene = played
    return loaded(kind, scene, place, **({"timeout": f"{LATE_S * 1000:.0f}ms"} if scene.comes == "late" else {}))


def _checked(target: ResolvedTarget, context: CheckContext) -> tuple[Outcome | None, float]:
    """The checker's own outcome, None if it let its deadline pass, and how many seconds that took."""
    try:
        with alarm(context.deadline):
            outcome = CHECKERS[target.type].check(target, context)
    except DeadlineExpired:
        outcome = None
    took_s = time.monotonic() - context.deadline.started
    for ending in context.endings:
        assert not ending.finish(), "something could not be ended"
    return outcome, took_s


def test_the_registries_agree() -> None:
    """Each type is listed under its own name, with its checker, its configuration and its scenes."""
    assert set(CHECKERS) == set(TARGET_TYPES) == set(SCENES)
    assert [checker.type for checker in CHECKERS.values()] == list(CHECKERS)
    assert [kind.name for kind in TARGET_TYPES.values()] == list(TARGET_TYPES)
    for kind, scenes in SCENES.items():
        assert {"matched", "mismatch", "error"} <= {scene.comes for scene in scenes}, kind


@every_scene
def test_an_outcome_is_a_value(played: Played, place: Place) -> None:
    """What the outside does is no exception: the outcome says it, with a place and a sentence. Only the deadline may
    pass through, and then the context knows where it was."""
    target = _target(played, place)
    entered: list[tuple[str, str]] = []
    context = CheckContext(Deadline(target.timeout_s), mark=lambda *at: entered.append(at))
    outcome, took_s = _checked(target, context)
    assert entered, "context.enter was never called: a check that is killed would have no place"
    assert all(phase and phase != "internal" and path for phase, path in entered), entered
    _assert_in_time(target, played[1], took_s)
    if outcome is None:
        assert played[1].comes == "late"
    else:
        assert 0 <= outcome.duration_ms <= context.deadline.elapsed_ms()
        _assert_told(outcome, played[1].comes)


def _assert_in_time(target: ResolvedTarget, scene: Scene, took_s: float) -> None:
    """The verdict is there at the deadline, and when there was nothing to wait for, before it."""
    assert took_s < target.timeout_s + GRACE_S
    if scene.comes == "late":
        assert took_s >= target.timeout_s * 0.9, "it ended before its time"
    else:
        assert took_s < target.timeout_s, "it waited for nothing"


def _assert_told(outcome: Outcome, comes: str) -> None:
    told = outcome.failure if outcome.failure is not None else outcome.warning
    if comes == "matched":
        assert told is None
        return
    assert told is not None, "nothing says what was wrong"
    assert told.kind == ("error" if comes in ("error", "late") else "mismatch"), told
    assert (outcome.failure is None) == (comes == "degraded"), "a warning stands beside a match, a failure does not"
    assert told.phase not in ("", "internal"), told
    assert told.path, told
    assert " " in told.message.strip(), "a message is a sentence"


@every_scene
def test_a_failed_run_never_matches(played: Played, place: Place) -> None:
    """The result that is stored is up exactly when the scene is, has its reason otherwise, and crosses the pipe."""
    comes = played[1].comes
    result, steps = run_check(_target(played, place), trace=True)
    assert result.matched == (comes in ("matched", "degraded")), result
    assert result.success == (comes in ("matched", "degraded", "mismatch")), result
    assert (result.failure is None) == result.matched
    assert (result.warning is not None) == (comes == "degraded")
    assert pickle.loads(pickle.dumps(result)) == result
    _assert_trace(steps, comes)


def _assert_trace(steps: tuple[TraceStep, ...], comes: str) -> None:
    """`checkvisor check` shows what was done: each step with its text, in order, with a known outcome. What failed is
    the last that was judged, and nothing else failed."""
    assert steps
    assert all(step.step.strip() and step.outcome in OUTCOMES for step in steps), steps
    assert [step.at_ms for step in steps] == sorted(step.at_ms for step in steps)
    judged = [step.outcome for step in steps if step.outcome in ("ok", "failed")]
    assert judged.count("failed") == (0 if comes == "matched" else 1), steps
    assert comes == "matched" or judged[-1] == "failed", steps


@every_scene
def test_a_deadline_that_is_too_short_is_an_error_at_a_place(played: Played, place: Place) -> None:
    """However short the time is: what has not been seen does not match, and nothing crashes."""
    result, _steps = run_check(loaded(*played, place, timeout="1ms"))
    assert not result.matched or played[1].comes in ("matched", "degraded")
    if result.failure is not None and result.failure.phase == "internal":
        assert result.failure.message.startswith("not done within"), "only before the checker says where it is"


@every_scene
def test_a_target_crosses_the_pipe(played: Played, place: Place) -> None:
    """Settings and expectations are values: pickled and read again they are the same, and equal targets of two loads
    are equal, so that a reload leaves them alone."""
    kind, scene = played
    target = loaded(kind, scene, place)
    assert pickle.loads(pickle.dumps(target)) == target
    assert target.settings.__dataclass_params__.frozen
    assert target.expect.__dataclass_params__.frozen
    assert target.summary, "people search for the summary"


@pytest.mark.parametrize("kind", SCENES)
def test_a_check_leaves_nothing_to_the_next(kind: str, place: Place) -> None:
    """One checker serves all targets of a worker, in any order."""
    scenes = [scene for scene in SCENES[kind] if scene.comes != "late"]
    for scene in (*scenes, *reversed(scenes)):
        result, _steps = run_check(loaded(kind, scene, place))
        assert result.matched == (scene.comes in ("matched", "degraded")), (scene.name, result)
