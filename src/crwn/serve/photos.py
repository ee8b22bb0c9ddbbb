"""Image files as the body of a request: one row, converted and resized to what the model or the task takes."""

from __future__ import annotations

from collections.abc import Sequence

from crwn.data.images import decode_image
from crwn.errors import DataError
from crwn.serve.body import Array
from crwn.serve.service import Service

TYPES = ("image/jpeg", "image/png", "image/webp", "image/bmp", "image/gif", "image/tiff")


async def photo_row(service: Service, data: bytes, task: str | list[str] | None) -> Array:
    """The image as rows `[1, ...]`, or one for each of several tasks.

    Raises:
        DataError: the body is no image, or neither the model nor the task was learned from images.
    """
    return await service.bank_calls.change(_decode, service, data, task)


def _decode(service: Service, data: bytes, task: str | list[str] | None) -> Array:
    names = [] if task is None else [task] if isinstance(task, str) else task
    image = decode_image(data, "the body", _shape(service, names[:1] or service.learner.bank.names(limit=1)))
    rows: Array = image[None].repeat(max(1, len(names)), axis=0)
    return rows


def _shape(service: Service, names: Sequence[str]) -> tuple[int, ...]:
    shape = service.input_shape
    if shape is not None and len(shape) == 3 and shape[0] in (1, 3):
        return shape
    for name in names:
        found = service.learner.resident.facts([name])[name].info.image
        if found is not None:
            return tuple(found)
    raise DataError("this model has no task that was learned from images: send rows of numbers")
