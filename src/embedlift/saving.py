"""An adapted model -> its folder: weights, sources it needs, hashes of the text it has seen, and the model card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedlift.errors import InputError
from embedlift.evaluation import contamination
from embedlift.model_card import write_model_card
from embedlift.modules import bundle_sources

if TYPE_CHECKING:
    from embedlift.files import PartialFolder
    from embedlift.record import Adaptation


def save(record: Adaptation, work: PartialFolder) -> None:
    """Write the model of ``record`` and finish ``work`` with it.

    Raises:
        InputError: If the disk is full, or cannot be written.
    """
    folder = work.path / "model"
    try:
        record.model.save_pretrained(str(folder), create_model_card=False)
        bundle_sources(folder)
        contamination.write(folder, record.corpus.texts)
    except Exception as error:  # the libraries in Rust that write weights and tokenizer share no class for a full disk
        if "os error" not in str(error):
            raise
        raise InputError(f"{folder} cannot be written ({error}): free some space and repeat the command") from error
    write_model_card(
        folder / "README.md",
        settings=record.settings,
        corpus=record.corpus,
        truncated=record.truncated,
        before=record.before,
        after=record.after,
        versions=record.versions,
        training=record.training.as_dict() if record.training else None,
        choice=record.choice.explanation if record.choice else None,
    )
    work.finish(folder)
