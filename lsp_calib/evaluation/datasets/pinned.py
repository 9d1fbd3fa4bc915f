"""Real projects at pinned versions, from a package index: the same lines to complete for everybody."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import attrs

from lsp_calib.errors import DownloadError

FOLDER = "projects"

# Largest allowed size of an unpacked wheel, in bytes; the largest one here has a fifth of it.
_MOST_BYTES = 256 << 20
_CHUNK = 1 << 20
# Source files, and the files that state their licence and authors.
_KEPT = (".py", ".pyi")
_KEPT_ABOUT = ("METADATA", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS")

# Projects with compiled wheels; the checksum is that of the wheel for one Python and platform.
_COMPILED = {"aiohttp", "hypothesis", "tornado"}
_PURE_TAGS = ("--platform=any", "--implementation=py", "--abi=none", "--python-version=3.13")
_COMPILED_TAGS = (
    "--platform=manylinux_2_28_x86_64",
    "--platform=manylinux_2_17_x86_64",
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux1_x86_64",
    "--implementation=cp",
    "--abi=cp311",
    "--abi=abi3",
    "--python-version=3.11",
)

Progress = Callable[[int, int, str], None]
"""Called with (done, all, what); done and all count projects."""


@attrs.frozen
class Project:
    """A release of a project. sha256: checksum of its wheel."""

    name: str
    version: str
    sha256: str

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"


def pull_projects(data: Path, on_progress: Progress, projects: Iterable[Project] | None = None) -> list[Path]:
    """Download the missing projects. The sources of a project are placed completely or not at all.

    Raises DownloadError at the end, listing all failures, if some could not be downloaded.
    """
    wanted = list(PROJECTS if projects is None else projects)
    complaints: list[str] = []
    folders: list[Path] = []
    (data / FOLDER).mkdir(parents=True, exist_ok=True)
    for at, project in enumerate(wanted):
        on_progress(at, len(wanted), project.folder)
        target = data / FOLDER / project.folder
        try:
            if not target.is_dir():
                _pull_one(project, target)
            folders.append(target)
        except DownloadError as error:
            complaints.append(str(error))
    on_progress(len(wanted), len(wanted), "")
    if complaints:
        raise DownloadError(
            f"{len(complaints)} of {len(wanted)} projects could not be downloaded; the others are there. "
            f"{' '.join(complaints)}"
        )
    return folders


def _pull_one(project: Project, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=target.parent) as scratch:
        wheel = _download(project, Path(scratch) / "wheel")
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != project.sha256:
            raise DownloadError(
                f"The wheel of {project.folder} has the wrong checksum: SHA-256 {found}, expected "
                f"{project.sha256}. It was deleted."
            )
        sources = Path(scratch) / "sources"
        unpack(wheel, sources)
        sources.rename(target)


def _download(project: Project, folder: Path) -> Path:
    """Download a wheel from the user's package index. Only wheels: no code of the package is run."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            "The projects come from a package index, and pip is not installed beside lsp-calib. "
            "Install it: `python -m ensurepip`."
        )
    # -P: ignore a module named pip in the working folder.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder)]
    command += _COMPILED_TAGS if project.name in _COMPILED else _PURE_TAGS
    command.append(f"{project.name}=={project.version}")
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    if result.returncode or not wheels:
        said = (result.stderr.strip().splitlines() or ["nothing"])[-1]
        raise DownloadError(f"pip could not download {project.folder}; it said: {said}")
    return wheels[0]


def unpack(wheel: Path, target: Path) -> None:
    """Extract the Python sources of a wheel, and its licence and author files, to `target`.

    Raises DownloadError for an archive that is damaged, is too large, or would write outside `target`.
    """
    left = _MOST_BYTES
    target.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                path = _place(member, wheel)
                if path is None:
                    continue
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, place.open("xb") as out:
                    while chunk := source.read(_CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            raise DownloadError(
                                f"{wheel.name} holds more than {_MOST_BYTES >> 20} MB of sources."
                            )
                        out.write(chunk)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise DownloadError(f"{wheel.name} cannot be unpacked: {error}.") from error


def _place(member: zipfile.ZipInfo, wheel: Path) -> PurePosixPath | None:
    """The path of a member; None if it is not kept. Raises DownloadError if it lies outside the folder."""
    path = PurePosixPath(member.filename)
    if (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in member.filename
        or ":" in member.filename
        or "\0" in member.filename
    ):
        raise DownloadError(
            f"{wheel.name} would write to {member.filename!r}, outside its folder. Nothing was unpacked."
        )
    about = any(part.endswith(".dist-info") for part in path.parts)
    kept = path.name.startswith(_KEPT_ABOUT) if about else path.suffix in _KEPT
    if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16) or not kept:
        return None
    return path


_LIST = """
aiohttp 3.14.5 50a195903119008fe9cc68710535eb37f556ffffd6a7759afe70a2c145587045
apscheduler 3.11.3 bbeb2ec02d23d3c06a6c07ed7f0f3939ada6680eb121fae809a69bb42c537a30
arrow 1.4.0 749f0769958ebdc79c173ff0b0670d59051a535fa26e8eba02953dc19eb43205
attrs 26.1.0 c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309
beautifulsoup4 4.15.0 d6f88de62e1d4e38ecb1077eb9724cd0eff29d2a08ca16a401e9b9e93f117cf9
black 26.10.1 28842f9a8207cc1df6eb983a35a14c5a0dfcd603d214fe82d84bef552afd2e3a
blinker 1.9.0 ba0efaa9080b619ff2f3459d1d500c57bddea4a6b424b60a91141db6fd2f08bc
boltons 26.2.0 41942cbce440211bbcf2487ccdc356964ad674f95a01068b8a0dd7a1d1fed036
bottle 0.13.4 045684fbd2764eac9cdeb824861d1551d113e8b683d8d26e296898d3dd99a12e
celery 5.7.0 18310a9c919f9029e4735367484d93e6a25cdfd30afdc474622cc263d9b35f6e
cerberus 1.3.8 46c029e3e2a4735408ed36bec14ef2cbf3e50d8ebe47fb34ee1e54b2da814df2
click 8.5.1 8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37
diskcache 5.6.3 5e31b2d5fbad117cc363ebaf6b689474db18a1f6438bc82358b024abd4c2ca19
docutils 0.23 25d013af9bf23bc1c7b2b093dff4208166c53a94786c9e447808335ef1185fea
errbot 6.2.1 1a046713b04ca9cc7e98fdeb6d73220f985d9def353aebc965ea8e94797e4415
falcon 4.4.0 2109d8dbaf6297b51de2e059558bc092d9b8b040cab8f390d3b7bec88312e20c
fastapi 0.163.2 825a8fdd18d7bfcb1b86735e9805c59b7400d55c4060d3df5331b62ae452f004
feedparser 6.0.14 e35e3f760151b0c3b22cac9684155cae186a233e16c49bcbc6c49e91e3131137
flask 3.1.3 f4bcbefc124291925f1a26446da31a5178f9483862233b23c0c96a20701f670c
funcy 2.1 290794186530c944f7e444d2e28b98f33a55685f2bfb9b7a61dac564decab8f8
furl 2.1.4 da34d0b34e53ffe2d2e6851a7085a05d96922b5b578620a37377ff1dbeeb11c8
geopy 2.5.0 8ad8cc226b505ca4d272ae9a2eeba08b8a2c565fc9a04eaefc33ad49c32b51aa
graphene 3.4.3 820db6289754c181007a150db1f7fff544b94142b556d12e3ebc777a7bf36c71
gunicorn 27.0.1 378b26b9a38adcf4592f28828233c1716acc55e833ea06bf48719782efaa0d10
html2text 2025.4.15 00569167ffdab3d7767a4cdf589b7f57e777a5ed28d12907d8c58769ec734acc
httpx 0.28.1 d909fcccc110f8c7faf814ca82a9a4d816bc5a6dbfea25d6591d6985b8ba59ad
hypothesis 6.170.15 ecbd6294a636594580689debc3011a0ca3eb76577770f661224314202f107e14
ipython 9.18.1 997ce9140d374531a61069c70c0f9ef299d6dd3559ea0f94b8af589726e3c1d5
jinja2 3.1.6 85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67
lektor 3.3.14 34ef28d2375baf1857d977b79d8f99e0bcdc5890e8af0be5df5f3b844acba9c9
mako 1.4.3 723296007c870bfd6b3f0c3230dba7198096e5269297ebf5e4eff9e7ffa39d4f
marshmallow 4.4.0 03a882ff2eabb9a4e24b433c2949f359ef4d172a12fdc14cde10375fd55328b4
mkdocs 1.6.1 db91759624d1647f3f34aa0c3f327dd2601beae39a366d6e064c03468d35c20e
moviepy 2.2.1 6b56803fec2ac54b557404126ac1160e65448e03798fa282bd23e8fab3795060
nbconvert 7.17.2 6a143c11c00bf831604da4b1be4347d36ea52367057eb920135d69bc2862fed2
networkx 3.7 e3fd2c13a7814cee3746340d8d7f8598a67f16a58bf47fb7f8793fab6efca1b0
nltk 3.10.4 769ba5413f265b7d3e87cd163cc28efa01e29eeef8bb6080bc907949d9fcfb51
paramiko 5.1.0 d9fe6d67a9d0bbf3eb85b051d26ab850b678c02d060f32915b944e5ca6d0d9e1
peewee 4.5.3 4c5db9d2a3c4ae9a5725b229c29af51dbd063193f3a6c03b837974a90e44548c
pelican 4.12.0 3697230f56cfcca9e98d3ac9ac26f655bb20cad807f7eacf156601e241f69ad8
pudb 2026.1 7e7c5f8d21d9fb60eb09337f3ee2d843054ff181f5fafbfd193beeec07aab092
pydantic 2.14.3 3f7b347782ab7e4cf4c798496ae3a82787d9f21ec12676a9c564355eeef8daa8
pydantic-settings 2.16.3 d1db16a2d34006323a1b42c0640898da58adfbad7ec30baaa9e2b18aafc08999
pygments 2.21.0 2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9
pyjwt 2.15.1 42d59d631f7768a1028a64c7ff581a9bf7519804daf91fc5b6c56e30eec5e193
pypdf 7.1.0 47cca6b24bdcf4c4d65b5f7b8b972535c61710a061261e737688777cfd9a7bfb
pyquery 2.1.0 74c9e65ea0cfbcf644a8c3fd438a3dedbcbbd497b9cb366a4f360dba72f8aebb
pyramid 2.1 0aa62604221f6a8ac6e77a0faa02a5b7a294d6675f15581d8d416dffe2ac98e7
requests 2.34.2 2a0d60c172f83ac6ab31e4554906c0f3b3588d37b5cb939b1c061f4907e278e0
requests-oauthlib 2.0.0 7dd8a5c40426b779b0868c404bdef9768deccf22749cde15852df527e6269b36
rich 15.0.0 33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb
schedule 1.2.2 5bef4a2a0183abf44046ae0d164cadcac21b1db011bdd8102e4a0c1e91e06a7d
scrapy 2.19.0 44c1ad4b008f1976e946c75b2adce0e448cbfe470c584b1b59469abf270e8013
seaborn 0.13.2 636f8336facf092165e27924f223d3c62ca560b1f2bb5dff7ab7fad265361987
sphinx 9.1.1 f8b60013ce25017be41a509e5c2d265bc1918410061315c36b809c7f335646c0
sqlalchemy 2.1.9 449fed5c2caa3b278cc57499d09db001fb3f28dc7f18affc48142aee4dcc0cdf
starlette 1.10.0 478c0ab3b4ced6e82719849c118fa406f0278a3499c1a898cd15cd31bdc38ce4
structlog 26.1.0 e081a26d6c373e6d201eca24eede26d8ffab07f88f477822e679183428d3d91e
supervisor 4.3.0 0bcb763fddafba410f35cbde226aa7f8514b9fb82eb05a0c85f6588d1c13f8db
sympy 1.14.0 e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5
tenacity 9.2.1 9e56f17539296baab7beabb08b92f6ee3d7be92d8be72d763360677c2ad6580e
tinydb 4.9.0 111f1f680978a1b7c534d698dd1d76739ff31c74c27fd26a111140b51d8b35d6
tornado 6.6.1 1b6ff57cc69b339f8feb9e7b567b0e0eacb16bfaf234159496623ef7a67ba640
tqdm 4.70.1 c293e525e6fef9c20e8728fd4612df02a0aa31bb5fe91ecd93e123b1b7bffa73
traitlets 5.16.1 f775618166caa0396c8e337099240f2bd3e5e917d203b2e6fbe21a58d3cb1f6b
typer 0.29.1 00dbc549c13428bec1be55fe1f4d0fb8c6637a310e4f178ef14abe9534ee7b58
uvicorn 0.54.0 505bdb0f318731d45f1f712071fc781a8981f6847a31c902c9f5e652d4f67faf
webassets 3.0.0 6d9249f8ce0b2f81b4dac7a8d2084c486579f846b1157b3b66027a4ef5863cf8
werkzeug 3.1.9 6392e50c78460ba618e5b21f08a71f59c99ce99cdc6cf6e3dd7e6ccca8754fab
wtforms 3.3.2 2fac992f39102d6268b06e05cdbdf37a7e9b9a4e103916d2dff1d09a080b531d
"""

PROJECTS = tuple(Project(*line.split()) for line in _LIST.split("\n") if line)
