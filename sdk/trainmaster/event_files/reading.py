"""What an event holds, as values: scalars, histograms, images, audio and text, of PyTorch's writer, tensorboardX and
TensorFlow 2. The package `tensorboard` is imported with the first event: an agent whose jobs write none stays small."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MOST_BINS, _MOST_TAGS = 512, 2_000
_LONGEST_SESSION_LOG = 4_096
_SESSION_START = "_hparams_/session_start_info"
_PYTORCH_TEXT = "/text_summary"  # what it appends to the name of a text
_MEDIA_NUMBER = re.compile(r"/(?:image|audio)(?:/\d+)?$")


@dataclass(frozen=True, slots=True)
class Scalar:
    key: str
    step: int
    at_ms: int
    value: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[i]` values lie between `edges[i]` and `edges[i + 1]`."""

    key: str
    step: int
    at_ms: int
    edges: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a sound, as the bytes of a file."""

    key: str
    step: int
    at_ms: int
    kind: str  # image or audio
    data: bytes
    index: int = 0  # of several of one step


@dataclass(frozen=True, slots=True)
class Text:
    key: str
    step: int
    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """What `add_hparams` of PyTorch or the HParams plugin wrote of the whole run."""

    key: str
    step: int
    at_ms: int
    parameters: Mapping[str, Any]


Value = Scalar | Histogram | Media | Text | Hyperparameters


def values_of(record: bytes, plugins: dict[str, str]) -> Iterator[Value]:
    """The values of one record; none of what is not understood.

    `plugins`: what each tag of the file is for, which TensorFlow 2 names with the first value alone; it is added to.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    try:
        event = Event.FromString(record)
    except DecodeError:
        return
    at_ms = max(0, round(event.wall_time * 1000)) if math.isfinite(event.wall_time) else 0
    for value in event.summary.value:
        if value.metadata.plugin_data.plugin_name and len(plugins) < _MOST_TAGS:
            plugins[value.tag] = value.metadata.plugin_data.plugin_name
        try:
            yield from _values(value, plugins.get(value.tag, ""), event.step, at_ms)
        except (
            ValueError,
            TypeError,
            IndexError,
            DecodeError,
        ):  # the tensor is not of the shape that its plugin asks for
            continue


def session_start(record: bytes) -> int | None:
    """The step at which a writer went on after a crash: what was written before of this step and later ones counts no
    more. None for any other record."""
    if len(record) > _LONGEST_SESSION_LOG:
        return None
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    try:
        event = Event.FromString(record)
    except DecodeError:
        return None
    begins = event.HasField("session_log") and event.session_log.status == SessionLog.START
    return int(event.step) if begins else None


def _values(value: Any, plugin: str, step: int, at_ms: int) -> Iterable[Value]:
    key = value.tag or value.node_name
    if value.tag == _SESSION_START:
        return _hyperparameters(key, step, at_ms, value.metadata.plugin_data.content)
    match value.WhichOneof("value"):
        case "simple_value":
            return [Scalar(key, step, at_ms, value.simple_value)]
        case "histo":
            return _old_histogram(key, step, at_ms, value.histo)
        case "image":
            return [Media(_MEDIA_NUMBER.sub("", key), step, at_ms, "image", value.image.encoded_image_string)]
        case "audio":
            return [Media(_MEDIA_NUMBER.sub("", key), step, at_ms, "audio", value.audio.encoded_audio_string)]
        case "tensor":
            from tensorboard.util.tensor_util import make_ndarray

            return _of_tensor(key, step, at_ms, plugin, make_ndarray(value.tensor))
    return []


def _hyperparameters(key: str, step: int, at_ms: int, content: bytes) -> list[Value]:
    from google.protobuf.json_format import MessageToDict
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    named = HParamsPluginData.FromString(content).session_start_info.hparams
    return [Hyperparameters(key, step, at_ms, {name: MessageToDict(value) for name, value in named.items()})]


def _old_histogram(key: str, step: int, at_ms: int, histogram: Any) -> list[Value]:
    """Limits are the right ends of the buckets; the first and the last may be infinite."""
    if not histogram.bucket_limit or len(histogram.bucket_limit) != len(histogram.bucket):
        return []
    limits = list(histogram.bucket_limit)
    edges = [min(histogram.min, limits[0]), *limits]
    edges[-1] = min(edges[-1], max(histogram.max, edges[-2]))
    return [Histogram(key, step, at_ms, *_thinned(edges, list(histogram.bucket)))]


def _of_tensor(key: str, step: int, at_ms: int, plugin: str, tensor: Any) -> list[Value]:
    match plugin:
        case "scalars":
            return [Scalar(key, step, at_ms, float(tensor.reshape(-1)[0]))]
        case "text":
            text = "\n".join(_decoded(line) for line in tensor.reshape(-1))
            return [Text(key.removesuffix(_PYTORCH_TEXT), step, at_ms, text)]
        case "histograms" if tensor.ndim == 2 and tensor.shape[1] == 3 and len(tensor):
            edges = [float(tensor[0][0]), *(float(right) for right in tensor[:, 1])]
            return [Histogram(key, step, at_ms, *_thinned(edges, [float(count) for count in tensor[:, 2]]))]
        case "images":  # width, height, then one file an image
            return [
                Media(key, step, at_ms, "image", bytes(data), index) for index, data in enumerate(tensor[2:])
            ]
        case "audio":
            files = tensor.reshape(len(tensor), -1)[:, 0]
            return [Media(key, step, at_ms, "audio", bytes(data), index) for index, data in enumerate(files)]
    return []


def _thinned(edges: list[float], counts: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Neighbouring bins together, until there are no more than a chart shows."""
    group = -(-len(counts) // _MOST_BINS)
    starts = range(0, len(counts), group)
    return (
        (*(edges[start] for start in starts), edges[-1]),
        tuple(sum(counts[start : start + group]) for start in starts),
    )


def _decoded(line: object) -> str:
    return line.decode(errors="replace") if isinstance(line, bytes) else str(line)
