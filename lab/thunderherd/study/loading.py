"""Studies: TOML in, one frozen `Study` out in which nothing is left to be guessed.

`load_study` reads a study's file, applies a size and the user's overrides, holds everything against what the
engine offers and what this machine has, and fills in every default. All mistakes of a file come in one
UserError, one line each: file and line (or the override), value seen, values allowed, near match. The parts
are in `study_file` (TOML with lines), `study_form` (what a file may contain), `study_configurations` (its
contenders, those of sweeps' points among them), `study_overrides`, `study_checks` and `study_sweeps`,
`study_resolver`, and `study_resolved` (what it becomes).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.study.file.names import bundled_studies, find_study
from thunderherd.study.file.recovery import shaped
from thunderherd.study.resolved import Comparison, Contender, Lab, LoadPlan, Look, Study, Sweep
from thunderherd.study.resolver import Resolver
from thunderherd.toml.file import Problems, TomlFile, unknown

__all__ = [
    "Comparison",
    "Contender",
    "Lab",
    "LoadPlan",
    "Look",
    "Study",
    "Sweep",
    "asked_for",
    "load_sizes",
    "load_study",
]


def asked_for(study: Study) -> str:
    """What names a study to `thunderherd run`: the name of a bundled one, otherwise the path of its file."""
    return study.name if bundled_studies().get(study.name) == study.path else str(study.path)


# Loading ----------------------------------------------------------------------------------------------------


def load_study(
    study: str | TomlFile,
    size: str,
    overrides: Sequence[str],
    catalogue: Catalogue,
    typed_as: Mapping[str, str] = MappingProxyType({}),
) -> Study:
    """Reads, checks and resolves a study.

    Parameters
    ----------
    study
        The name of a bundled study, the path of a .toml file, or what is in one.
    size
        One of the sizes that the study declares; `study_names.DEFAULT_SIZE` where the user named none.
    overrides
        `key=value` texts, as given to --set; later ones win.
    catalogue
        What the engine offers.
    typed_as
        Of overrides that were not typed as `--set`, the words that they were typed as: a mistake names them.

    Raises
    ------
    UserError
        One line for each mistake. The other sizes are checked too, except for what depends on this machine,
        and except in a study that comes with the program: the tests hold each of its sizes.
    """
    file = study if isinstance(study, TomlFile) else TomlFile(find_study(study))
    is_bundled = file.path in bundled_studies().values()
    problems = Problems(file)
    form, data, whole = shaped(file.data, problems)
    if size not in form.sizes:
        problems.add(("sizes",), unknown("size", size, form.sizes))
        problems.raise_any()
    found = None
    for each in [size] if is_bundled else form.sizes:
        pass_ = Problems(file)
        pass_.settled |= problems.settled
        chosen = each == size
        given = overrides if chosen else ()
        resolver = Resolver(form, data, each, given, typed_as, catalogue, pass_, whole)
        resolved = resolver.study(on_this_machine=chosen)
        problems.absorb(pass_)
        found = resolved if chosen else found
    problems.raise_any()
    if found is None:
        raise UserError(f"{file.path}: could not be resolved")
    text = json.dumps(found.model_dump(mode="json", exclude={"digest"}), sort_keys=True)
    return found.model_copy(update={"digest": hashlib.sha256(text.encode()).hexdigest()})


def load_sizes(name_or_path: str, catalogue: Catalogue) -> dict[str, Study | list[str]]:
    """A study in each of its sizes, as it would run on this machine; or, a line each, why it cannot."""
    file = TomlFile(find_study(name_or_path))
    problems = Problems(file)
    form, data, whole = shaped(file.data, problems)
    found: dict[str, Study | list[str]] = {}
    for size in form.sizes:
        pass_ = Problems(file)
        pass_.settled |= problems.settled
        study = Resolver(form, data, size, (), {}, catalogue, pass_, whole).study(on_this_machine=True)
        pass_.absorb(problems)
        found[size] = study if study is not None and not len(pass_) else pass_.lines
    return found
