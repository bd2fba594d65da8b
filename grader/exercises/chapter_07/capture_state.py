"""The exercise `capture_state`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common_torch import CHAPTER
from grader.exercises.chapter_07.micro_run import MicroRun, numpy_run
from grader.plain import Shown, TorchRng
from grader.torch_calls import Adapter, kind_of, torch

KEYS = ("model", "optimizer", "generator", "step")
LATER = 2  # steps after the capture


@dataclass(frozen=True)
class Resumed(Adapter):
    """Trains a micro model for `step` steps, has the student's function capture its state, and goes on from it.

    In the calls `model` stands for its first weights and `optimizer` for a dict: the learning rate, and which keys of
    the captured dict the new run takes ("from_the_dict": a list of keys; what it does not take from there is right).
    Plain value, for the model alone: its numbers, parameters and buffer. For some of the others: the losses of the
    next steps. For all four: {"live", "resumed", "same bytes"}: the losses of the live run's next steps, those of a
    run that goes on from the dict once these have been made, and whether both end with the same bytes. Where
    something cannot be used, a sentence stands in its place.
    """

    def prepare(self):
        super().prepare()
        MicroRun(np.zeros(1), 0.1, 0).train(1)  # the first optimizer imports half of torch

    def run(self, fn, names, args, kwargs):
        model, optimizer, rng, step = args
        weights, settings = np.array(model.data), optimizer.data
        torch.default_generator.manual_seed(0)  # for who captures this one: the same everywhere; it is put back later
        start, keys = (weights, settings["learning_rate"], rng.seed), tuple(settings["from_the_dict"])
        live = MicroRun(*start)
        live.train(step)
        right = _captured(live.model, live.optimizer, live.generator, live.step)
        found = fn(live.model, live.optimizer, live.generator, live.step)
        if found is None:
            return None
        if keys != KEYS:
            return _going_on(start, _through_a_file(found, keys), right, keys)
        if not live.model.training:
            return (
                "after the capture the model is no longer in training mode (model.training is False): dropout and "
                "batch norms would work otherwise in all steps that follow"
            )
        try:
            losses = live.train(LATER)
        except Exception as error:
            return f"after the capture the live run cannot go on: {_words(error)}"
        resumed = _going_on(start, _through_a_file(found, keys), right, keys)
        if isinstance(resumed, str):
            return resumed
        same = bool(torch.equal(resumed["numbers"], live.numbers))
        return {"live": losses, "resumed": resumed["losses"], "same bytes": same}


def _words(error):
    return " ".join(str(error).split())[:160] or type(error).__name__


def _captured(model, optimizer, generator, step):
    """What a run goes on from, and nothing of it shared with the run."""
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": generator.get_state(),
        "step": step,
    }


def _through_a_file(found, keys):
    """What stands under these keys as it comes back from a file; a sentence where that is not possible."""
    if not isinstance(found, dict):
        return f"a dict is due, and {kind_of(found)} came back"
    read = {}
    for key in keys:  # one by one: what is wrong with one key leaves the others as they are
        if key not in found:
            continue
        file = io.BytesIO()
        try:
            torch.save(found[key], file)
            file.seek(0)
            read[key] = torch.load(file, weights_only=True)
        except Exception:
            read[key] = _Unreadable(type(found[key]).__name__)
    return read


@dataclass(frozen=True)
class _Unreadable:
    """Stands for what torch.save cannot write, or torch.load(..., weights_only=True) refuses to read."""

    type_name: str


def _whole(step):
    """An int, also out of a tensor with one whole number in it; None for anything else."""
    if isinstance(step, torch.Tensor) and step.numel() == 1 and step.dtype in (torch.int64, torch.int32):
        return int(step)
    return step if type(step) is int else None


def _going_on(start, found, right, keys):
    """Load a new run: `keys` from what was found, the others as is right. Return what it does, or a sentence."""
    if isinstance(found, str):
        return found
    for key in keys:
        if key not in found:
            return f'the dict has no key "{key}"'
        if isinstance(found[key], _Unreadable):
            return (
                f'under "{key}" stands an object of type {found[key].type_name}, which torch.load(..., '
                "weights_only=True) refuses to read: tensors, numbers, strings, lists and dicts are due"
            )
    state = {key: found[key] if key in keys else right[key] for key in KEYS}
    run = MicroRun(*start)
    for key, load in (
        ("model", run.model.load_state_dict),
        ("optimizer", run.optimizer.load_state_dict),
        ("generator", run.generator.set_state),
    ):
        try:
            load(state[key])
        except Exception as error:
            name = "set_state" if key == "generator" else "load_state_dict"
            return f'{key}.{name} does not take what stands under "{key}": {_words(error)}'
    run.step = _whole(state["step"])
    if run.step is None:
        return f'under "step" a whole number is due, and {kind_of(state["step"])} stands there'
    if keys == ("model",):
        return run.numbers
    losses = run.train(LATER)
    return losses if keys != KEYS else {"losses": losses, "numbers": run.numbers}


def _reference(model, optimizer, generator, step):
    """The reference, in numpy: a run in one piece."""
    settings = optimizer.data
    losses, numbers = numpy_run(np.array(model.data), settings["learning_rate"], generator.seed, step + LATER)
    if settings["from_the_dict"] == ["model"]:
        return numbers[step - 1]
    if len(settings["from_the_dict"]) < len(KEYS):
        return losses[step:]
    return {"live": losses[step:], "resumed": losses[step:], "same bytes": True}


def _taking(*keys, note):
    def calls(rng):
        weights = tuple(float(x) for x in np.round(rng.uniform(-1.0, 1.0, 2), 1) + 0.0)
        rate, seed, step = float(rng.choice([0.05, 0.1])), int(rng.integers(1, 2**31)), int(rng.integers(2, 5))
        model = Shown(f"a module of 2 weights, at first {weights}, trained for {step} steps", weights)
        optimizer = Shown(
            f"its AdamW, learning rate {rate} at first", {"learning_rate": rate, "from_the_dict": list(keys)}
        )
        return [call(model, optimizer, TorchRng(seed), step, note=note)]

    return calls


# --- properties ------------------------------------------------------------------------------------------------------


def _same_run(values, calls):
    """The losses of both runs, against those of a run in one piece, and the last bit of what they end with."""
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        due = _reference(*one.args)["live"]
        live, resumed = value["live"], value["resumed"]
        if not np.allclose(live, due, rtol=1e-6):
            return i, (
                f"the capture changed the run itself: the losses of its next steps are {_list(live)}, and without a "
                f"capture {_list(due)}"
            )
        if not np.allclose(resumed, due, rtol=1e-6):
            return i, (
                f"the run trained on, and its next losses are {_list(live)}; a new run that then takes everything "
                f"from the dict has {_list(resumed)} in the same steps"
            )
        if not value["same bytes"]:
            return i, "the losses of both runs agree to six digits, the weights at the end do not to the last byte"
    return None


def _list(losses):
    return " and ".join(f"{loss:.6g}" for loss in losses)


# --- mistakes: the right dict with other things under its keys -------------------------------------------------------


def _changed(leave_out=(), **entries):
    """`entries` make what stands under a key from (model, optimizer, generator, step)."""

    def wrong(model, optimizer, generator, step):
        state = _captured(model, optimizer, generator, step)
        for key, made in entries.items():
            state[key] = made(model, optimizer, generator, step)
        return {key: value for key, value in state.items() if key not in leave_out}

    return wrong


def _live_model(model, optimizer, generator, step):
    return model.state_dict()


def _live_optimizer(model, optimizer, generator, step):
    return optimizer.state_dict()


def _parameters_only(model, optimizer, generator, step):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _rounded(model, optimizer, generator, step):
    return {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}


def _converted(model, optimizer, generator, step):
    return copy.deepcopy(model.bfloat16().state_dict())


def _evaluating(model, optimizer, generator, step):
    return copy.deepcopy(model.eval().state_dict())


def _averages_only(model, optimizer, generator, step):
    return copy.deepcopy(optimizer.state_dict()["state"])


def _settings_only(model, optimizer, generator, step):
    return {"state": {}, "param_groups": copy.deepcopy(optimizer.state_dict()["param_groups"])}


def _first_state(model, optimizer, generator, step):
    return torch.Generator().manual_seed(generator.initial_seed()).get_state()


def _new_seed(model, optimizer, generator, step):
    seed = int(torch.randint(0, 2**31, (1,), generator=generator))
    return torch.Generator().manual_seed(seed).get_state()


def _cloned(model, optimizer, generator, step):
    slots = {
        number: {name: value.clone() for name, value in slot.items()}
        for number, slot in optimizer.state_dict()["state"].items()
    }
    return {
        "step": int(step),
        "generator": generator.get_state().clone(),
        "model": {name: tensor.detach().clone() for name, tensor in model.state_dict().items()},
        "optimizer": {"state": slots, "param_groups": [dict(g) for g in optimizer.state_dict()["param_groups"]]},
    }


def _step_as_a_tensor(model, optimizer, generator, step):
    return {**_captured(model, optimizer, generator, step), "step": torch.tensor(step)}


def _written_and_read(model, optimizer, generator, step):
    file = io.BytesIO()
    objects = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**objects, "generator": generator.get_state(), "step": step}, file)
    file.seek(0)
    return torch.load(file)


CAPTURE_STATE = Exercise(
    name="capture_state",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=_reference,
    adapter=Resumed(),
    parts=(
        Part(
            says="the model: its parameters and its buffers",
            points=1,
            calls=_taking(
                "model", note="a new model loads the dict; below: its 2 weights, then its buffer, a running mean"
            ),
            hint="A module knows how to list everything that it holds, what is trained and what is not.",
        ),
        Part(
            says="the optimizer: it goes on as if it had never stopped",
            points=1,
            calls=_taking(
                "optimizer", note="a new run takes its optimizer from the dict; below: the losses of its next 2 steps"
            ),
            hint="AdamW keeps two running averages and a count for each parameter. What gives you all of them?",
        ),
        Part(
            says="the generator and the step: the next batches and learning rates are the right ones",
            points=1,
            calls=_taking(
                "generator", "step", note="a new run takes these two from the dict; below: losses of its next 2 steps"
            ),
            hint="A seed says where a generator started. What says where it stands? And `step` counts steps done.",
        ),
        Part(
            says="the run trains on, the dict stays what it is, and both then go on with the same bytes",
            points=2,
            calls=_taking(*KEYS, note="the run trains on; then a new one takes everything from the dict"),
            holds=_same_run,
            hint="Train a step after the capture and print one number of the dict before and after it.",
        ),
    ),
    mistakes=(
        Mistake(
            "references instead of copies",
            _changed(model=_live_model, optimizer=_live_optimizer),
            "Right at once, wrong later: state_dict() is a window and no photograph. Its tensors share their memory "
            "with the live ones, and the next steps write over them. dict(...), a shallow copy and .detach() share it "
            "too.",
        ),
        Mistake(
            "the model's tensors are shared",
            _changed(model=_live_model),
            "The optimizer's state is a copy, the model's tensors are not: they share their memory with the live ones, "
            "and the next steps write over them.",
        ),
        Mistake(
            "the optimizer's tensors are shared",
            _changed(optimizer=_live_optimizer),
            "The model's tensors are copies, those of the optimizer are not: its running averages lie two dicts deep, "
            "where a shallow copy does not come. After a few more steps they are those of another time.",
        ),
        Mistake(
            "optimizer left out",
            _changed(leave_out=("optimizer",)),
            "The optimizer is missing. A new AdamW starts without its running averages, and its first steps are as "
            "large as at the very beginning of the run: the loss curve has a bump at every restart.",
        ),
        Mistake(
            "generator left out",
            _changed(leave_out=("generator",)),
            "The generator is missing. The run goes on with other batches, or with those that it has seen already.",
        ),
        Mistake(
            "step left out",
            _changed(leave_out=("step",)),
            "The step is missing. The learning rate starts anew, and so does everything else that counts steps.",
        ),
        Mistake(
            "model left out",
            _changed(leave_out=("model",)),
            "The model itself is missing.",
        ),
        Mistake(
            "parameters without buffers",
            _changed(model=_parameters_only),
            "Only the parameters were captured. Buffers, such as the running mean of this model, are part of what it "
            "computes, although nothing trains them.",
        ),
        Mistake(
            "rounded to half precision",
            _changed(model=_rounded),
            "The weights were rounded. Half precision saves space, and about two digits are left: good enough to use a "
            "model, not to go on training it with the same bytes.",
        ),
        Mistake(
            "live model converted",
            _changed(model=_converted),
            "The capture changed the model itself: .half(), .bfloat16(), .float() and .to() of a module work in place. "
            "Convert the tensors of a copy.",
        ),
        Mistake(
            "model left in evaluation mode",
            _changed(model=_evaluating),
            "The capture called model.eval() and left it at that. A state is read without changing the mode; from here "
            "on the run would train without dropout and with frozen batch norms.",
        ),
        Mistake(
            "the optimizer's averages only",
            _changed(optimizer=_averages_only),
            "Of the optimizer only the running averages are there. load_state_dict needs the groups as well, which say "
            "to which parameters they belong.",
        ),
        Mistake(
            "the optimizer's settings only",
            _changed(optimizer=_settings_only),
            "Of the optimizer only its settings are there: the running averages start at 0 again, and so the first "
            "steps are too large.",
        ),
        Mistake(
            "initial seed",
            _changed(generator=lambda model, optimizer, generator, step: generator.initial_seed()),
            "The seed is where the generator started. It has drawn since: with the seed alone the run sees its first "
            "batches again.",
        ),
        Mistake(
            "state of a generator that starts anew",
            _changed(generator=_first_state),
            "The captured generator stands at its beginning: the run sees its first batches again, and nothing says "
            "so.",
        ),
        Mistake(
            "state of torch's global generator",
            _changed(generator=lambda model, optimizer, generator, step: torch.get_rng_state()),
            "This is the state of torch's global generator. The batches are drawn by the one that was handed in.",
        ),
        Mistake(
            "a new seed drawn",
            _changed(generator=_new_seed),
            "A seed for the rest was drawn from the generator. Random it is, but neither run goes on as it would have: "
            "a capture must not draw.",
        ),
        Mistake(
            "the generator itself",
            _changed(generator=lambda model, optimizer, generator, step: generator),
            "The generator itself stands in the dict. It goes on drawing, a file holds it only as a pickle, and "
            "reading a pickle can run anybody's code. Its state is a tensor.",
        ),
        Mistake(
            "the objects themselves",
            lambda model, optimizer, generator, step: dict(zip(KEYS, (model, optimizer, generator, step), strict=True)),
            "Model, optimizer and generator themselves stand in the dict. They train on with the run, and a file holds "
            "them only as pickles, which need this very code to be read again and can run anybody else's.",
        ),
        Mistake(
            "one step too far",
            _changed(step=lambda model, optimizer, generator, step: step + 1),
            "The step is one too high: `step` counts those that are done, and the next one was skipped.",
        ),
        Mistake(
            "one step back",
            _changed(step=lambda model, optimizer, generator, step: step - 1),
            "The step is one too low: `step` counts those that are done, and the last one would be counted twice.",
        ),
    ),
    alternatives=(
        Alternative("deep copies", _captured),
        Alternative("clones, tensor by tensor", _cloned),
        Alternative("written to memory and read back", _written_and_read),
        Alternative("step as a tensor", _step_as_a_tensor),
    ),
    hint="Four keys, four questions: what does it hold, who gives it to you, is it a copy, can a file hold it?",
)
