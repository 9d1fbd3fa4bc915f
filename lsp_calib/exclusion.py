"""Excluded documents: files that hold secrets, and those that match the setting `exclude`.

No prompt ever contains text of an excluded document, whether the model runs on this machine or elsewhere. Its
names alone decide, because documents of any kind have one: that of a link, and that of the file behind it.
Ambiguous names are excluded: a missing suggestion does less harm than a key that was sent. Pure.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

import attrs

# Last parts of paths, in lower case. Sources that only process secrets (`credentials.py`) are not excluded.
_SECRET_NAMES = (
    # settings of programs that include passwords
    *(".env", ".env[._-]*", "*.env", ".envrc", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.ovpn"),
    *(".flaskenv", ".renviron", ".yarnrc.yml", "wp-config.php"),
    # private keys and stores of keys
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "id_xmss"),
    *("id_rsa_*", "*_rsa", "*_ed25519"),
    *("*.pem", "*.key", "*.keytab", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.ppk", "*.jks", "*.jceks"),
    *("*.keystore", "*.kdb", "*.kdbx", "*.gpg", "*.pgp", "*.age", "*.agekey", "secring.*"),
    # passwords and tokens of programs
    *(".npmrc", ".netrc", "_netrc", ".authinfo", ".pypirc", ".pgpass", "pgpass.conf", ".my.cnf"),
    *(".mylogin.cnf", ".git-credentials", ".dockercfg", ".htpasswd", ".s3cfg", ".boto", ".vault-token"),
    *("rclone.conf", ".smbcredentials"),
    ".*_history",  # what was typed in a shell or a database's client
    *(".terraformrc", "terraform.rc", "kubeconfig", "*.kubeconfig", "*.secret", "*.secrets"),
    *("credentials", ".credentials", "client_secret*.json", "service[-_]account*.json"),
    "application_default_credentials.json",
    # data files named after their secrets
    *(
        f"{dot}{stem}.{form}"
        for dot, stem, form in itertools.product(
            ("", "."),
            ("credential", "credentials", "secret", "secrets", "passwords"),
            ("json", "toml", "yaml", "yml", "ini", "cfg", "conf", "xml", "csv", "txt", "properties", "enc"),
        )
    ),
)
# Folders with only secret files, and files that are secret in one folder only.
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".password-store"})
_SECRET_PLACES = frozenset({(".kube", "config"), (".docker", "config.json"), (".aws", "config")})
# Suffixes that editors and people add to the names of copies.
_COPY = re.compile(r"(?:~|\.(?:bak|backup|copy|old|orig|save|saved|swo|swp|tmp))+$")
# Why such files are excluded, a clause.
SECRET_NAME = "files of this name usually hold secrets"
# In a pattern with more alternatives in braces than this, each pair of braces matches any text.
_MOST_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*)\}")


def is_pattern(text: str) -> bool:
    """Whether a text can be a pattern of the setting `exclude`: short, not negated, not empty."""
    return len(text) <= 400 and not text.startswith("!") and bool(_parts(text))


# Comparisons of a document with all patterns, which may be a workspace's; expanding one counts as so many.
_MOST_WORK, _EXPANDING = 300_000, 48


@attrs.frozen
class Exclusion:
    """Tells which documents are excluded.

    patterns: as in `.gitignore`, below any folder and in any case: `*` and `?` within a name, `**` for any
        folders, `{a,b}` for either. A pattern without a slash matches files and folders of that name; with a
        folder all its files are excluded.
    """

    patterns: tuple[str, ...] = ()

    def reason(self, *names: str) -> str:
        """Why a document is excluded, as a clause for people; "" if it is not.

        names: its URI or path, and that of the file behind a link.
        """
        return why_excluded(self.patterns, names)


@functools.lru_cache(maxsize=512)  # asked at every keystroke
def matches(pattern: str, name: str) -> bool:
    """Whether a pattern as in `Exclusion` matches a document, or takes too long to compare. name: its URI or
    path."""
    readings = _readings(name)
    if _work(pattern, readings) > _MOST_WORK // 50:
        return True
    return any(_matches(one, parts) for one in _alternatives(pattern) for parts in readings)


@functools.lru_cache(maxsize=512)  # asked at every keystroke
def why_excluded(patterns: tuple[str, ...], names: tuple[str, ...]) -> str:
    """As `Exclusion(patterns).reason(*names)`."""
    return next((why for name in names if (why := _reason(patterns, name))), "")


def _reason(patterns: tuple[str, ...], name: str) -> str:
    readings = _readings(name)
    if any(_is_secret(parts) for parts in readings):
        return SECRET_NAME
    work = 0
    for pattern in patterns:
        work += _work(pattern, readings)
        if work > _MOST_WORK:
            return "the patterns that might exclude it take too long to compare"
        if any(_matches(one, parts) for one in _alternatives(pattern) for parts in readings):
            return f"it matches {pattern!r} in the setting `exclude`"
    return ""


def _work(pattern: str, readings: Sequence[tuple[str, ...]]) -> int:
    """About how many comparisons a pattern costs: each part of it is compared with each name."""
    names = sum(map(len, readings))
    return sum(_EXPANDING + len(parts) * names for parts in _alternatives(pattern))


def _readings(name: str) -> list[tuple[str, ...]]:
    """The parts of the paths that a name can mean: the path of the URI, and the whole URI.

    Not every client escapes `#` and `?` in paths: an apparent fragment may be part of a file's name.
    """
    try:
        path = urlsplit(name).path
    except ValueError:
        path = name
    readings = [_parts(unquote(path)), _parts(unquote(name)), _parts(name)]
    return [reading for reading in dict.fromkeys(readings) if reading]


def _parts(path: str) -> tuple[str, ...]:
    """The names in a path or pattern, in one spelling."""
    spelled = unicodedata.normalize("NFC", path).casefold().replace("\\", "/")
    return tuple(part for part in spelled.split("/") if part.strip() not in ("", ".", "..", "~"))


def _is_secret(parts: Sequence[str]) -> bool:
    # Windows ignores dots and spaces at the end. Two colons separate an archive from a file in it, and a file
    # from the type of a stream.
    names = {part.rstrip(". ") for part in parts[-1].split("::")}
    names |= {_COPY.sub("", name) for name in names}
    if any(_secret_name().fullmatch(name) for name in names):
        return True
    if _SECRET_FOLDERS.intersection(parts[:-1]):
        return True
    return len(parts) > 1 and any((parts[-2], name) in _SECRET_PLACES for name in names)


@functools.cache
def _secret_name() -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in _SECRET_NAMES))


def _matches(pattern: tuple[str, ...], parts: Sequence[str]) -> bool:
    """Whether the pattern matches the document or a folder above it, beginning at any folder."""
    # Positions reached in the pattern: a match may begin at each name.
    reached: set[int] = set()
    for part in parts:
        before = _skipped(pattern, reached | {0})
        reached = set()
        for at in before:
            if pattern[at] == "**":
                reached.add(at)
            elif fnmatch.fnmatchcase(part, pattern[at]):
                reached.add(at + 1)
        if any(set(pattern[at:]) <= {"**"} for at in reached):
            return True
    return False


def _skipped(pattern: tuple[str, ...], reached: set[int]) -> set[int]:
    """The positions from which a name can be matched: `**` also matches no folder at all."""
    places = set(reached)
    for at in reached:
        while at < len(pattern) and pattern[at] == "**":
            at += 1
            places.add(at)
    return {at for at in places if at < len(pattern)}


@functools.lru_cache(maxsize=1024)
def _alternatives(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The patterns without braces that `pattern` stands for, each as its parts."""
    # Both signs mean any other character to git, the first alone to fnmatch.
    pattern = pattern.strip().removeprefix("file:").replace("[^", "[!")
    found = list(itertools.islice(_expanded(pattern), _MOST_ALTERNATIVES + 1))
    if len(found) > _MOST_ALTERNATIVES:
        plain = pattern
        while (wider := _BRACES.sub("**", plain)) != plain:
            plain = wider
        found = [plain]
    several = (_without_repeats(_parts(text)) for text in found)
    return tuple(dict.fromkeys(parts for parts in several if parts))


def _without_repeats(parts: tuple[str, ...]) -> tuple[str, ...]:
    """`**/**` is `**`."""
    return tuple(part for before, part in itertools.pairwise(("", *parts)) if {before, part} != {"**"})


def _expanded(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from _expanded(pattern[: match.start()] + choice + pattern[match.end() :])
