"""Excluded documents. The names are those that real programs use."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import exclusion
from lsp_calib.exclusion import Exclusion, is_pattern, matches

SECRETS = """
.env .env.local .env.production .ENV .Env.Local prod.env .envrc .env-dev .env.example .env.swp .env~ .env.bak
id_rsa id_ed25519 id_rsa.bak server.pem SERVER.PEM tls.key tls.key.old cert.p12 cert.pfx AuthKey_1.p8
putty.ppk release.jks release.keystore passwords.kdbx http.keytab mail.gpg .npmrc .netrc _netrc
.pypirc .pgpass .git-credentials .htpasswd .dockercfg .s3cfg credentials credentials.json credentials.toml
secrets.yml secrets.yaml .secrets.toml client_secret_12.apps.json service-account.json
service_account_prod.json
application_default_credentials.json prod.tfvars terraform.tfstate terraform.tfstate.backup
.flaskenv .Renviron .yarnrc.yml wp-config.php id_rsa_work deploy_rsa github_ed25519 .bash_history
.psql_history rclone.conf .smbcredentials
.ssh/config .ssh/anything .gnupg/trustdb .kube/config .docker/config.json .aws/config .aws/credentials
"""
SOURCES = """
module.py env.py environment.ts .environment dotenv.js credentials.py secrets.py secret_store.go keys.rs
key.py deploy_rsa.pub rsa.py history.py yarn.lock config.php rclone.py
id_rsa.pub id_rsa.py monkey.c turkey.txt settings.toml config.json docker/config.json kube/config
README.md package.json .eslintrc .gitignore Makefile .envoy pem.py config ssh/config secrets/module.py
my.keyboard
"""
FORMS = (
    "{}",
    "/home/me/project/{}",
    "C:\\Users\\me\\{}",
    "file:///home/me/project/{}",
    "file:///c%3A/Users/me/{}",
    "untitled:{}",
    "untitled:/home/me/project/{}",
    "vscode-remote://ssh-remote%2Bhost/home/me/{}",
    "vscode-vfs://github/me/project/{}",
    "git:/home/me/project/{}?%7B%22ref%22%3A%22~%22%7D",
    "vscode-notebook-cell:/home/me/{}#W0sZmlsZQ%3D%3D",
    "zipfile:///home/me/a.zip::{}",
)


@pytest.mark.parametrize("form", FORMS)
def test_files_with_secrets_are_left_alone_wherever_they_lie(form: str) -> None:
    used = [name for name in SECRETS.split() if not Exclusion().reason(form.format(name))]
    if "::" in form:
        used = [name for name in used if "/" not in name]
    assert used == []


@pytest.mark.parametrize("form", FORMS)
def test_sources_are_not(form: str) -> None:
    assert [name for name in SOURCES.split() if Exclusion().reason(form.format(name))] == []


IN_TWO_WAYS = ("%2Eenv", "%2eEnV", "c#/.env", "what?/.env", ".env#L1", ".env?x=1", ".env/", ".env. ")


@pytest.mark.parametrize(
    "name",
    [
        *(f"file:///ws/{name}" for name in (*IN_TWO_WAYS, ".env::$DATA")),
        "file://[broken/.env",
        "\\\\server\\share\\.env",
    ],
)
def test_a_name_that_can_be_read_in_two_ways_is_left_alone_if_one_is_a_secret(name: str) -> None:
    assert Exclusion().reason(name)


@pytest.mark.parametrize(
    ("pattern", "excluded", "used"),
    [
        ("*.min.js", "a/b/x.min.js X.MIN.JS", "x.js min.js"),
        ("generated", "generated/a.py a/generated/b/c.py generated", "generated.py ungenerated/a.py"),
        ("generated/", "generated/a.py", "regenerated/a.py"),
        ("src/*.py", "src/a.py /ws/src/a.py", "src/b/a.py lib/a.py"),
        ("src/**", "src/a.py x/src/y/z.py", "source/a.py"),
        ("**/private/**", "private/a.py x/private/y/z.py", "privately/a.py"),
        ("src/**/test/*.py", "src/test/a.py src/x/y/test/a.py", "test/a.py src/a.py"),
        ("/home/me/private", "/home/me/private/a.py", "/home/me/public/a.py"),
        ("~/private", "/home/me/private/a.py", "/home/me/public/a.py"),
        ("./notes.md", "a/notes.md", "a/notes.txt"),
        ("../notes.md", "a/notes.md", "a/notes.txt"),
        ("*.{min.js,map}", "a.min.js a.map", "a.js"),
        ("{a,b}/{c,d}.py", "a/d.py b/c.py", "a/e.py c/a.py"),
        ("{a,{b,c}}.py", "a.py c.py", "d.py"),
        ("{a,b", "{a,b", "a b"),
        ("data[0-9].csv", "data7.csv", "data.csv datax.csv"),
        ("build\\*.py", "build/a.py", "a.py"),
        ("file:///home/me/x.py", "/home/me/x.py", "/home/me/y.py"),
        ("C:\\secret", "c%3A/secret/a.py", "d%3A/secret/a.py"),
        ("ÄRGER", "a\u0308rger/a.py", "arger/a.py"),
        ("**", "a.py", ""),
        ("*", "a.py", ""),
    ],
)
def test_patterns_are_as_people_know_them(pattern: str, excluded: str, used: str) -> None:
    exclusion = Exclusion((pattern,))
    wrong = [name for name in excluded.split() if not exclusion.reason(f"file:///{name.lstrip('/')}")]
    assert wrong == []
    assert [name for name in used.split() if exclusion.reason(f"file:///{name.lstrip('/')}")] == []
    assert Exclusion(("*.other", pattern)).reason(excluded.split()[0])


def test_the_reason_names_the_pattern() -> None:
    assert "'gen/**'" in Exclusion(("a", "gen/**")).reason("file:///gen/x.py")
    assert Exclusion().reason("file:///gen/x.py") == ""


@pytest.mark.parametrize("text", ["", " ", "/", "~", "./", "!keep.py", "x" * 401])
def test_what_is_no_pattern(text: str) -> None:
    assert not is_pattern(text)


def test_too_many_alternatives_exclude_more_rather_than_less() -> None:
    pattern = "{a,b}" * 12 + ".py"
    assert Exclusion((pattern,)).reason("/abababababab.py")
    assert not Exclusion((pattern,)).reason("/abababababab.txt")
    deep = "q/" + "{a/b,c/d,e/f}/" * 6 + "x"
    assert Exclusion((deep,)).reason("q/a/b/c/d/e/f/a/b/c/d/e/f/x")


def test_braces_do_not_hold_up_the_editor() -> None:
    """A workspace may add patterns. Compared with ordinary ones: no clock is a pass mark."""
    path = "/" + "/".join(["a" * 60] * 20) + "/b.py"

    def seconds(patterns: tuple[str, ...]) -> float:
        began = time.process_time()
        for number in range(20):
            Exclusion(patterns).reason(f"{path}{number}")
        return time.process_time() - began

    seconds(("warm",))
    hostile = seconds(("{" * 200 + "a", "{a,b}" * 80))
    assert hostile < 200 * max(seconds(("*.py2", "src/x/*.py", "generated", "*.{js,map}")), 1e-3)


def test_what_takes_too_long_to_compare_counts_as_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(_: str, pattern: str) -> bool:
        compared.append(pattern)
        return False

    monkeypatch.setattr("fnmatch.fnmatchcase", compare)
    monkeypatch.setattr(exclusion, "_MOST_WORK", 5_000)
    few, many = tuple(f"gen{n}/x" for n in range(5)), tuple(f"gen{n}/x" for n in range(500))
    name = "/" + "/".join(["a"] * 10) + "/b.py"
    assert Exclusion(few).reason(name) == ""
    assert 0 < len(compared) < 5_000
    assert "too long" in Exclusion(many).reason(name)
    assert len(compared) < 5_000
    assert matches("{a,b}/{c,d}", name)
    assert not matches("gen/x", name)


@given(st.text(), st.lists(st.text(max_size=20), max_size=3))
def test_any_name_and_any_pattern_can_be_asked_about(name: str, patterns: list[str]) -> None:
    reason = Exclusion(tuple(patterns)).reason(name)
    assert isinstance(reason, str)
    assert Exclusion().reason(name) in ("", reason)
