"""Write `tests/forge/apis/{github,gitea}.json`: the requests that adapters send, as the APIs describe them.

`python -m tools.forge_apis GITHUB GITEA`: the OpenAPI file of the npm package `@octokit/openapi` (generated/
api.github.com.json, MIT), and `templates/swagger/v1_json.tmpl` of the Go module code.gitea.io/gitea (MIT). GitLab
publishes none in a package; `gitlab.json` is written by hand after its documentation.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tests/forge/apis"
_REPO = "/repos/{owner}/{repo}"
GITHUB = {
    "/user": "get",
    "/app": "get",
    "/app/installations/{installation_id}/access_tokens": "post",
    _REPO: "get",
    f"{_REPO}/installation": "get",
    f"{_REPO}/pulls": "get post",
    f"{_REPO}/pulls/{{pull_number}}": "get patch",
    f"{_REPO}/issues/{{issue_number}}/comments": "get post",
    f"{_REPO}/issues/comments/{{comment_id}}": "patch delete",
    f"{_REPO}/statuses/{{sha}}": "post",
    f"{_REPO}/check-runs": "post",
    f"{_REPO}/check-runs/{{check_run_id}}": "patch",
    f"{_REPO}/collaborators/{{username}}/permission": "get",
}
GITEA = {
    "/user": "get",
    _REPO: "get",
    f"{_REPO}/pulls": "get post",
    f"{_REPO}/pulls/{{index}}": "get patch",
    f"{_REPO}/issues/{{index}}/comments": "get post",
    f"{_REPO}/issues/comments/{{id}}": "patch delete",
    f"{_REPO}/statuses/{{sha}}": "post",
    f"{_REPO}/collaborators/{{collaborator}}/permission": "get",
}
_KEPT = ("type", "enum", "properties", "items", "required", "maxItems", "maximum", "oneOf", "anyOf", "format")


def _resolved(node: Any, root: dict[str, Any]) -> Any:
    """Return a schema without references, and without what no check needs."""
    if isinstance(node, list):
        return [_resolved(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        found: Any = root
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return _resolved(found, root)
    kept = {key: _resolved(value, root) for key, value in node.items() if key in _KEPT and key != "properties"}
    if "properties" in node:
        kept["properties"] = {name: _resolved(value, root) for name, value in node["properties"].items()}
    return kept


def _operation(operation: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        root["components"]["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for one in operation.get("parameters", [])
    ]
    query = {one["name"]: _resolved(one.get("schema", one), root) for one in parameters if one["in"] == "query"}
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    bodies = [one["schema"] for one in parameters if one["in"] == "body"]
    body = content.get("schema") or next(iter(bodies), None)
    return {"query": query} | ({"body": _resolved(body, root)} if body else {})


def _write(name: str, root: dict[str, Any], used: dict[str, str]) -> None:
    chosen = {
        path: {method: _operation(root["paths"][path][method], root) for method in methods.split()}
        for path, methods in used.items()
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(chosen, indent=1) + "\n")


def main(arguments: list[str]) -> None:
    """Write both files."""
    github, gitea = (Path(argument).read_text() for argument in arguments)
    _write("github", json.loads(github), GITHUB)
    _write("gitea", json.loads(re.sub(r"\{\{[^}]*\}\}", "x", gitea)), GITEA)


if __name__ == "__main__":
    main(sys.argv[1:])
