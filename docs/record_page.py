"""The page of `cpor serve` on recorded answers, in one file: a decision to touch without installing anything.

Every answer comes from the real service. What can be asked for: every object, each mode, the line in steps of
`STEP`, and in the mode cautious one relation changed, in steps of `EDIT_STEP` or to "no answer".

    python docs/record_page.py out/try.html
"""

import base64
import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

import cpor
from cpor.serve.http.http_app import create_app
from cpor.serve.http.settings import ServeSettings

EXAMPLE = "touching-toys"
STEP = 0.05
EDIT_STEP = 0.1
_STATIC = Path(cpor.__file__).parent / "serve" / "static"
_HERE = Path(__file__).parent
_LARGEST_PLAN = 18  # as decider.js has it


def record(
    client: Any,
    example: str = EXAMPLE,
    targets: int | None = None,
    pairs: int | None = None,
    edit_step: float = EDIT_STEP,
) -> dict[str, Any]:
    """All that the page may ask about an example, and what the service says to it.

    Args:
        client: Asks a running service.
        example: Name of an example of the service.
        targets: Only so many of its objects; None: all.
        pairs: Only so many of its relations can be changed; None: all.
        edit_step: Step of a relation that is changed.
    """
    shown = client.get("/v1/examples").json()
    scene = _said(client.post(f"/v1/examples/{example}"))
    picture = client.get(f"/v1/examples/{example}/rgb.png").content
    states = {
        _place(asked): _ask(client, scene, asked)
        for each in scene["objects"][:targets]
        for asked in _questions(scene, each["id"], pairs, edit_step)
    }
    return {
        "health": client.get("/healthz").json() | {"simulator": False},
        "examples": [each for each in shown if each["name"] == example],
        "picture": f"data:image/png;base64,{base64.b64encode(picture).decode()}",
        "scene": scene,
        "states": states,
        "edit_step": edit_step,
    }


def _questions(
    scene: dict[str, Any], target: int, pairs: int | None, edit_step: float
) -> Iterator[dict[str, Any]]:
    for mode in scene["modes"]:
        yield {"target": target, "mode": mode, "relations": []}
    for k in range(round(1 / STEP) + 1):
        yield {"target": target, "tau": round(k * STEP, 2), "relations": []}
    values = [*(round(k * edit_step, 2) for k in range(round(1 / edit_step) + 1)), None]
    for pair in scene["relations"][:pairs]:
        for p in values:
            edit = {"blocked": pair["blocked"], "blocker": pair["blocker"], "p": p}
            yield {"target": target, "mode": scene["mode"], "relations": [edit]}


def _place(asked: dict[str, Any]) -> str:
    """The key under which `recorded.js` looks an answer up."""
    edits = [
        f"{e['blocker']}>{e['blocked']} {'none' if e['p'] is None else format(e['p'], '.2f')}"
        for e in asked["relations"]
    ]
    risk = asked.get("mode") or f"tau {asked['tau']:.2f}"
    return " | ".join([str(asked["target"]), risk, *edits])


def _ask(client: Any, scene: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The decision, why, and what comes after: the three questions that the page asks of a state."""
    said = _said(client.post(f"/v1/scenes/{scene['id']}/decide", json=asked | {"graphs": 3}))
    state = {"decide": said}
    if said["action"] is None or said["action"].get("reason") == "failed_check":
        return state
    # As `probabilitiesOf` of api.js puts it: what is not seen goes by a name.
    unseen = "something that is not seen"
    objects = [each["id"] for each in scene["objects"]]
    pairs = [{"blocked": e["blocked"], "blocker": e["blocker"] or unseen, "p": e["p"]} for e in said["edges"]]
    has_unseen = any(each["blocker"] == unseen for each in pairs)
    body = {
        "objects": objects + [unseen] * has_unseen,
        "target": said["target"],
        "tau": said["tau"],
        "relations": pairs,
        "unseen": unseen if has_unseen else None,
    }
    state["explain"] = _said(client.post("/v1/explain", json=body | {"graphs": 0}))
    if len(body["objects"]) <= _LARGEST_PLAN and all(each["p"] is not None for each in pairs):
        state["plan"] = _said(client.post("/v1/plan", json=body))
    return state


def _said(reply: Any) -> dict[str, Any]:
    if reply.status_code != 200:
        raise SystemExit(f"{reply.request.url}: {reply.status_code} {reply.text}")
    content: dict[str, Any] = reply.json()
    return content


def page(recording: dict[str, Any]) -> str:
    """One file: the page, its modules, its styles and the recording. It opens from disk."""
    html = (_STATIC / "index.html").read_text()
    modules = {path.name: path.read_text() for path in _STATIC.glob("*.js") if path.name != "theme.js"}
    inside = {name: re.sub(r'from "\./', 'from "cpor/', text) for name, text in modules.items()}
    urls = {
        f"cpor/{name}": f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"
        for name, text in inside.items()
    }
    styles = "\n".join((_STATIC / name).read_text() for name in ("style.css", "page.css", "parts.css"))
    links = ", ".join(f"[data-testid={name}]" for name in ("live-link", "docs-link", "depth-view"))
    hidden = f"#open-pictures, #request, #tools, {links} {{ display: none !important; }}"
    packed = base64.b64encode(gzip.compress(json.dumps(recording).encode(), mtime=0)).decode()
    head = "\n".join(
        [
            f"<style>{styles}\n{hidden}</style>",
            f"<script>{(_STATIC / 'theme.js').read_text()}</script>",
            f'<script id="recording" type="text/plain">{packed}</script>',
            f"<script>{(_HERE / 'recorded.js').read_text()}</script>",
            f'<script type="importmap">{json.dumps({"imports": urls})}</script>',
            '<script type="module">import "cpor/app.js";</script>',
        ]
    )
    html = re.sub(r'  <link rel="(icon|stylesheet)"[^>]*>\n', "", html)
    html = re.sub(r'  <script src="/static/theme.js"></script>\n', "", html)
    html = html.replace('  <script type="module" src="/static/app.js"></script>\n', head + "\n")
    return html.replace("<body ", f'<body data-step="{STEP}" data-edit-step="{recording["edit_step"]}" ')


if __name__ == "__main__":
    with TestClient(create_app(ServeSettings(port=0)), base_url="http://127.0.0.1") as to_service:
        Path(sys.argv[1]).write_text(page(record(to_service)))
