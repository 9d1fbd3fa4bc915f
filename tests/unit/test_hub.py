"""Getting a model from a hub, here a server of our own: whole and right, or not there and the reason said."""

import hashlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from test_download import card_of, silent

from lsp_calib.errors import DownloadError, ModelFileError, SettingsError
from lsp_calib.inference.models import download, inventory, sidecar
from lsp_calib.inference.models.cards import ModelCard, Source
from lsp_calib.inference.models.download import Checked

CONTENT = b"GGUF" + bytes(range(256)) * 4000
PLACE = "/somebody/tiny-GGUF/resolve/main/tiny.gguf"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CARD = attrs.evolve(
    card_of(content=CONTENT), sources=(Source("hub", repo="somebody/tiny-GGUF", file="tiny.gguf"),)
)
# The file of a card without a checksum.
BARE = attrs.evolve(CARD, size=0, sha256="")


class Host(http.server.ThreadingHTTPServer):
    """A file host. What it does is set by the test; what it was asked for is kept."""

    daemon_threads = True
    answers: Callable[["Asked"], None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answers = Asked.file
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def begins_with(self, answer: Callable[["Asked"], None], times: int = 1) -> None:
        """Answer so many requests in this way, and later ones with the file."""
        self.answers = lambda asked: answer(asked) if len(self.requests) <= times else asked.file()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is no fault of the host's."""


class Asked(http.server.BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers))
        self.server.answers(self)

    def log_message(self, *_: object) -> None:
        pass

    def head(self, status: int, **headers: str | int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def file(self, content: bytes = CONTENT, etag: str = '"one"', most: int | None = None) -> None:
        """The file, or the rest of it; `most` bytes of that before the connection breaks."""
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked and self.headers.get("If-Range", etag) == etag and start < len(content):
            size = len(content)
            content_range = f"bytes {start}-{size - 1}/{size}"
            self.head(206, Content_Length=size - start, Content_Range=content_range)
        elif asked and start == len(content):
            self.head(416, Content_Length=0, Content_Range=f"bytes */{len(content)}")
        else:
            start = 0
            self.head(200, Content_Length=len(content), ETag=etag)
        self.wfile.write(content[start:] if most is None else content[start : start + most])


@pytest.fixture
def host(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host that stands in for the hub, and short pauses."""
    del home
    monkeypatch.setattr(download, "_PAUSE", 0.01)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Host() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
        server.shutdown()


@pytest.fixture
def other() -> Iterator[Host]:
    with Host() as server:
        yield server
        server.shutdown()


def interrupt(done: int, _all: int, _what: str) -> None:
    """What a user does half-way."""
    if done > 500_000:
        raise KeyboardInterrupt


def left_behind(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "models").iterdir() if path.name[:2] not in (".s", ".f"))


def refusal(card: ModelCard = CARD) -> str:
    with pytest.raises(DownloadError) as caught:
        download.pull(card, silent)
    return str(caught.value)


def test_the_target_of_a_linked_folder_keeps_its_permissions(home: Path, tmp_path: Path) -> None:
    """Other programs may keep their models there too."""
    shared = tmp_path / "disk"
    shared.mkdir()
    shared.chmod(0o755)
    (home / "models").symlink_to(shared)
    assert sidecar.models_folder() == home / "models"
    assert shared.stat().st_mode & 0o777 == 0o755


class TestAWholeFile:
    def test_lies_in_its_place_once_its_checksum_is_right(self, host: Host, home: Path) -> None:
        seen: list[tuple[int, int, str]] = []
        pulled = download.pull(CARD, lambda *progress: seen.append(progress))
        assert pulled.path.read_bytes() == CONTENT
        assert (pulled.sha256, pulled.checked) == (SHA256, Checked.CARD)
        assert left_behind(home) == ["tiny.gguf"]
        assert [path for path, _ in host.requests] == [PLACE]
        assert seen[0] == (0, len(CONTENT), "somebody/tiny-GGUF")
        assert seen[-1][:2] == (len(CONTENT), len(CONTENT))
        assert seen == sorted(seen)

    def test_with_other_bytes_is_thrown_away(self, host: Host, home: Path) -> None:
        host.answers = lambda asked: asked.file(CONTENT[:-1] + b"!")
        said = refusal()
        for part in ("wrong checksum", SHA256, "It was deleted", "127.0.0.1"):
            assert part in said
        assert left_behind(home) == []

    @pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"!"])
    def test_of_another_length_is_not_even_fetched(self, host: Host, home: Path, content: bytes) -> None:
        host.answers = lambda asked: asked.file(content)
        assert f"has {len(content)} bytes, not the {len(CONTENT)} expected" in refusal()
        assert left_behind(home) == []

    def test_that_the_hub_lists_with_other_bytes_is_not_even_fetched(self, host: Host, home: Path) -> None:
        listed = hashlib.sha256(b"other").hexdigest()
        host.answers = lambda asked: asked.head(302, Location="/elsewhere", X_Linked_ETag=f'"{listed}"')
        said = refusal()
        assert listed in said
        assert SHA256 in said
        assert len(host.requests) == 1
        assert left_behind(home) == []


class TestACardWithoutAChecksum:
    def test_is_trusted_on_first_use_and_held_to_it(self, host: Host, home: Path) -> None:
        pulled = download.pull(BARE, silent)
        assert (pulled.sha256, pulled.checked) == (SHA256, Checked.NOTHING)
        assert "could not be compared" in pulled.checked.words()
        again = download.pull(BARE, silent)
        assert (again.sha256, again.checked) == (SHA256, Checked.FIRST_USE)
        pulled.path.write_bytes(CONTENT[:-1] + b"!")
        with pytest.raises(ModelFileError, match="wrong checksum"):
            download.pull(BARE, silent)
        pulled.path.unlink()
        host.answers = lambda asked: asked.file(CONTENT + b"!")
        assert "wrong checksum" in refusal(BARE)
        assert left_behind(home) == []

    @pytest.mark.parametrize("listed", [SHA256, f"sha256:{SHA256}"])
    def test_is_compared_with_what_the_hub_lists(self, host: Host, listed: str) -> None:
        elsewhere: dict[str, str | int] = {"Location": "/blob", "X_Linked_ETag": f'"{listed}"'}
        host.begins_with(lambda asked: asked.head(302, Content_Length=0, **elsewhere))
        assert download.pull(BARE, silent).checked is Checked.HUB
        assert [path for path, _ in host.requests] == [PLACE, "/blob"]

    def test_from_a_host_that_does_not_say_the_length_is_refused(self, host: Host) -> None:
        def answers(asked: Asked) -> None:
            asked.head(200)
            asked.wfile.write(CONTENT)

        host.answers = answers
        assert "does not say how long" in refusal(BARE)


class TestAnInterruption:
    def test_of_the_connection_is_mended_where_it_was(self, host: Host) -> None:
        host.answers = lambda asked: asked.file(most=300_000)
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        asked = [headers.get("range") for _, headers in host.requests]
        assert asked == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]

    def test_by_the_user_keeps_what_came_for_the_next_pull(self, host: Host, home: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            download.pull(CARD, interrupt)
        assert left_behind(home) == [".pull-tiny.gguf.part"]
        kept = (home / "models" / ".pull-tiny.gguf.part").stat().st_size
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        assert host.requests[-1][1]["range"] == f"bytes={kept}-"
        assert left_behind(home) == ["tiny.gguf"]

    def test_while_the_whole_file_is_checked_loses_nothing(
        self, host: Host, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(hashlib, "file_digest", interrupted)
            with pytest.raises(KeyboardInterrupt):
                download.pull(CARD, silent)
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        assert len(host.requests) == 1
        assert left_behind(home) == ["tiny.gguf"]

    def test_with_bytes_that_do_not_belong_together_is_thrown_away(self, host: Host, home: Path) -> None:
        """The file changed meanwhile: the checksum tells, and the next pull begins anew."""
        host.answers = lambda asked: asked.file(b"x" * len(CONTENT), most=600_000)
        with pytest.raises(KeyboardInterrupt):
            download.pull(CARD, interrupt)
        host.answers = Asked.file
        assert "wrong checksum" in refusal()
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        assert [headers.get("range") is None for _, headers in host.requests] == [True, False, True]
        assert left_behind(home) == ["tiny.gguf"]

    def test_that_left_more_than_the_file_has_begins_anew(self, host: Host, home: Path) -> None:
        """Another release's card had a larger file of this name."""
        sidecar.models_folder()
        inventory.part_of(CARD.path).write_bytes(CONTENT + b"!")
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        assert host.requests[0][1].get("range") is None
        assert left_behind(home) == ["tiny.gguf"]

    def test_of_a_file_without_a_checksum_begins_anew(self, host: Host) -> None:
        """It may have changed meanwhile, and nothing would tell."""
        host.begins_with(lambda asked: asked.file(b"x" * len(CONTENT), most=300_000))
        assert download.pull(BARE, silent).path.read_bytes() == CONTENT
        assert [headers.get("range") for _, headers in host.requests] == [None, None]

    def test_of_a_file_without_a_checksum_is_given_up_in_the_end(self, host: Host, home: Path) -> None:
        host.answers = lambda asked: asked.file(most=300_000)
        assert "are kept" not in refusal(BARE)
        assert len(host.requests) == download._MOST_FAILURES
        assert left_behind(home) == []

    def test_that_killed_it_leaves_a_folder_that_the_next_pull_deletes(self, host: Host, home: Path) -> None:
        folder = home / "models"
        for name in (".pull-tiny.gguf.0a1b_2c3", ".pull-tiny.gguf.gguf.0a1b_2c3", ".pull-tiny.gguf.0a1b2c3"):
            (folder / name).mkdir(parents=True)
            (folder / name / "joined").write_bytes(b"half")
        download.pull(CARD, silent)
        others = [".pull-tiny.gguf.0a1b2c3", ".pull-tiny.gguf.gguf.0a1b_2c3"]
        assert left_behind(home) == [*others, "tiny.gguf"]
        (folder / ".pull-tiny.gguf.0a1b_2c3").mkdir()
        download.pull(CARD, silent)
        assert left_behind(home) == [*others, "tiny.gguf"]
        assert len(host.requests) == 1

    def test_without_end_is_given_up_and_said(self, host: Host, home: Path) -> None:
        served = iter([3 << 18, 0, 0, 0, 0, 0, 0])
        host.answers = lambda asked: asked.file(most=next(served))
        said = refusal()
        assert "broke" in said
        assert "are kept" in said
        assert len(host.requests) == 1 + download._MOST_FAILURES - 1
        assert ".pull-tiny.gguf.part" in left_behind(home)

    def test_by_silence_is_noticed(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(download, "_TIMEOUT", download.httpx.Timeout(0.2))
        free = threading.Event()

        def answers(asked: Asked) -> None:
            asked.head(200, Content_Length=len(CONTENT), ETag='"one"')
            asked.wfile.write(CONTENT[:1000])
            asked.wfile.flush()
            free.wait(30)

        host.begins_with(answers)
        try:
            assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        finally:
            free.set()
        assert host.requests[1][1]["range"] == "bytes=1000-"


@pytest.mark.usefixtures("host")
def test_a_model_that_is_being_pulled_is_not_removed(home: Path) -> None:
    said: list[str] = []

    def meanwhile(done: int, _all: int, _what: str) -> None:
        if done > 500_000 and not said:
            before = left_behind(home)
            with pytest.raises(DownloadError) as caught:
                inventory.remove("tiny.gguf")
            said.append(str(caught.value))
            assert left_behind(home) == before

    assert download.pull(CARD, meanwhile).path.read_bytes() == CONTENT
    assert "is downloading tiny.gguf. Wait until it is done" in said[0]
    inventory.remove("tiny.gguf")
    assert left_behind(home) == []


class TestARefusal:
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (404, "does not give tiny.gguf (HTTP 404)"),
            (401, "HF_TOKEN"),
            (403, "HF_TOKEN"),
            (418, "HTTP 418"),
        ],
    )
    def test_is_said_at_once_in_words(self, host: Host, home: Path, status: int, words: str) -> None:
        host.answers = lambda asked: asked.head(status, Content_Length=0)
        assert words in refusal()
        assert len(host.requests) == 1
        assert left_behind(home) == []

    @pytest.mark.parametrize("status", [429, 500, 502, 503])
    def test_that_may_pass_is_tried_again(self, host: Host, status: int) -> None:
        host.begins_with(lambda asked: asked.head(status, Content_Length=0, Retry_After="0"), times=2)
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT

    def test_of_the_connection_is_said_without_waiting(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it would not help"))
        assert "cannot be reached" in refusal()
        assert host.requests == []

    def test_of_the_disk_is_said_before_anything_is_fetched(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = download.shutil.disk_usage("/")._replace(free=1 << 30)
        monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage)
        host.answers = lambda asked: asked.head(200, Content_Length=1 << 40)
        fetched: list[int] = []
        with pytest.raises(DownloadError, match="has 1074 MB free; getting tiny takes 1099512 MB"):
            download.pull(BARE, lambda done, *_: fetched.append(done))
        assert fetched == []


class TestRedirects:
    def test_are_followed_and_the_token_stays_with_its_host(
        self, host: Host, other: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")

        def answers(asked: Asked) -> None:
            there = "/renamed" if asked.path == PLACE else f"{other.url}/blob?signed=1"
            asked.head(307, Location=there, Content_Length=0)

        host.answers = answers
        assert download.pull(CARD, silent).path.read_bytes() == CONTENT
        assert [path for path, _ in host.requests] == [PLACE, "/renamed"]
        assert {headers.get("authorization") for _, headers in host.requests} == {"Bearer hf_secret"}
        ((path, headers),) = other.requests
        assert path == "/blob?signed=1"
        assert "authorization" not in headers

    @pytest.mark.parametrize(
        ("place", "words"),
        [
            ("http://example.org/tiny.gguf", "not encrypted"),
            ("file:///etc/passwd", "not encrypted"),
            (PLACE, "redirects wrongly"),
        ],
    )
    def test_that_lead_astray_are_not_followed(self, host: Host, place: str, words: str) -> None:
        host.answers = lambda asked: asked.head(302, Location=place, Content_Length=0)
        assert words in refusal()

    def test_the_token_is_in_no_message(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        host.answers = lambda asked: asked.head(403, Content_Length=0)
        assert "hf_secret" not in refusal()
        assert "hf_secret" not in repr(download.Endpoint.from_environment())


@pytest.mark.parametrize("token", ["hf_schlüssel", "hf_two words", "hf_“quoted”", "hf_a\nb"])
def test_what_can_be_no_token_is_said_and_not_quoted(
    host: Host, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(SettingsError, match="HF_TOKEN") as caught:
        download.pull(CARD, silent)
    assert "hf_" not in str(caught.value)
    assert host.requests == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "address", ["http://example.org", "ftp://127.0.0.1", "huggingface.co", "https://", "::"]
)
def test_an_endpoint_that_is_not_safe_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(SettingsError, match="HF_ENDPOINT"):
        download.pull(CARD, silent)


@pytest.mark.parametrize("address", ["", "https://hf-mirror.example", "http://localhost:8080/"])
def test_an_endpoint_that_is_safe_is_taken(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    url = download.Endpoint.from_environment().url(CARD.sources[0])
    assert str(url) == (address.rstrip("/") or "https://huggingface.co") + PLACE
