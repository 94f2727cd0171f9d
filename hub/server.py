"""The hub over HTTP, in the words of the Hub's API: unmodified clients with HF_ENDPOINT set read it and write it.

Answers that only read are plain functions, which Starlette runs in threads; those that take a body read it in pieces,
so that memory does not depend on its size, and do the work in threads.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from . import answers, xet
from .access import GuardedApp, base_url
from .commit_payload import CommitPayload
from .commits import commit, find_content
from .errors import (
    ConflictError,
    EntryNotFoundError,
    PickleRefusedError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    StorageError,
)
from .names import check_file_path, check_repo_id
from .pages import index_page, model_page
from .pickles import LEFT_OUT, why_pickle_by_name
from .repository import Repository
from .revisions import LARGE_FILE
from .store import LocalHub
from .uploads import receive_file, receive_limited, receive_pieces, sign_upload, verify_upload

LONGEST_BODY = 16 << 20  # bytes of a request that is held in memory
USER = "local"  # whose repositories are those that a client names without an organisation


def make_app(
    hub: LocalHub,
    token: str | None = None,
    *,
    insecure_writes: bool = False,
    allow_pickle: bool = False,
    hosts: set[str] | None = None,
) -> GuardedApp:
    """The ASGI application. Writing needs `token`; without one it needs `insecure_writes`. `hosts`: see GuardedApp."""
    api = _Api(hub, allow_pickle)
    model = "/api/models/{organisation}/{name}"
    routes = [
        Route("/", api.index),
        Route("/api/whoami-v2", api.whoami),
        Route("/api/validate-yaml", api.validate_yaml, methods=["POST"]),
        Route("/api/models", api.list_models),
        Route("/api/repos/create", api.create, methods=["POST"]),
        Route("/api/repos/delete", api.delete, methods=["DELETE"]),
        Route(model, api.model_info),
        Route(f"{model}/revision/{{revision:path}}", api.model_info),
        Route(f"{model}/auth-check", api.model_info),
        Route(f"{model}/refs", api.references),
        Route(f"{model}/commits/{{revision:path}}", api.commits),
        Route(f"{model}/tree/{{revision}}", api.tree),
        Route(f"{model}/tree/{{revision}}/{{path:path}}", api.tree),
        Route(f"{model}/paths-info/{{revision:path}}", api.paths_info, methods=["POST"]),
        Route(f"{model}/preupload/{{revision:path}}", api.preupload, methods=["POST"]),
        Route(f"{model}/commit/{{revision:path}}", api.commit, methods=["POST"]),
        Route(f"{model}/tag/{{revision:path}}", api.create_tag, methods=["POST"]),
        Route(f"{model}/tag/{{revision:path}}", api.delete_reference, methods=["DELETE"]),
        Route(f"{model}/branch/{{revision:path}}", api.create_branch, methods=["POST"]),
        Route(f"{model}/branch/{{revision:path}}", api.delete_reference, methods=["DELETE"]),
        Route("/{organisation}/{name}.git/info/lfs/objects/batch", api.upload_batch, methods=["POST"]),
        Route("/uploads/{organisation}/{name}/{sha256}", api.upload, methods=["PUT"]),
        Route(f"{model}/xet-write-token/{{revision:path}}", api.xet_token),
        Route("/xet/{organisation}/{name}/{session}/v1/xorbs/default/{xorb}", api.xet_xorb, methods=["POST"]),
        Route("/xet/{organisation}/{name}/{session}/v1/shards", api.xet_shard, methods=["POST"]),
        Route("/{organisation}/{name}/resolve/{revision}/{path:path}", api.resolve),
        Route("/{organisation}/{name}", api.page),
        Route("/{organisation}/{name}/tree/{revision:path}", api.page),
    ]
    app = Starlette(routes=routes, exception_handlers={Exception: _explain, HTTPException: _explain, **_HANDLERS})
    app.state.hub = hub
    return GuardedApp(app, token, insecure_writes, hosts)


class _Api:
    def __init__(self, hub: LocalHub, allow_pickle: bool):
        self.hub, self.allow_pickle = hub, allow_pickle
        self.secret = secrets.token_bytes(32)  # signs the addresses that clients upload to without their token

    def repository(self, request: Request) -> Repository:
        parameters = request.path_params
        repository = self.hub.repository(f"{parameters['organisation']}/{parameters['name']}")
        repository.check_exists()
        return repository

    # ---- reading

    def index(self, request: Request) -> Response:
        return index_page(self.hub, base_url(request))

    def page(self, request: Request) -> Response:
        return model_page(self.repository(request), request.path_params.get("revision", "main"))

    def whoami(self, request: Request) -> Response:
        role = {"displayName": "greffe", "role": "write"}
        user = {"type": "user", "id": USER, "name": USER, "fullname": USER, "orgs": []}
        return JSONResponse({**user, "auth": {"type": "access_token", "accessToken": role}})

    async def validate_yaml(self, request: Request) -> Response:
        import yaml

        content = str((await _read_json(request)).get("content", ""))
        if content.startswith("---"):
            try:
                yaml.safe_load(content.split("---", 2)[1])
            except yaml.YAMLError as error:
                message = f"expected YAML between the first two lines of ---, found {error}"
                return JSONResponse({"errors": [{"message": message}], "warnings": []}, 400)
        return JSONResponse({"errors": [], "warnings": []})

    def list_models(self, request: Request) -> Response:
        query, models = request.query_params, []
        for name in self.hub.list():
            with suppress(ValueError, OSError):  # damaged or deleted meanwhile: the others are still there
                repository = self.hub.repository(name)
                models.append(answers.describe_model(repository, repository.revision()))
        wanted = set(query.getlist("filter"))
        if task := query.get("pipeline_tag"):
            wanted.add(task)
        author, search = query.get("author"), query.get("search", "").lower()
        found = [
            model
            for model in models
            if search in model["id"].lower() and wanted <= {*model["tags"]} and author in (None, model["author"])
        ]
        found.sort(key=lambda model: model["lastModified"], reverse=True)
        limit = query.get("limit", "")
        return JSONResponse(found[: int(limit)] if limit.isdecimal() else found)

    def model_info(self, request: Request) -> Response:
        repository = self.repository(request)
        revision = repository.revision(request.path_params.get("revision", "main"))
        return JSONResponse(answers.describe_model(repository, revision, with_blobs="blobs" in request.query_params))

    def references(self, request: Request) -> Response:
        return JSONResponse(answers.describe_references(self.repository(request)))

    def commits(self, request: Request) -> Response:
        history = self.repository(request).history(request.path_params["revision"])
        return JSONResponse([answers.describe_commit(revision) for revision in history])

    def tree(self, request: Request) -> Response:
        revision = self.repository(request).revision(request.path_params["revision"])
        folder = request.path_params.get("path", "").strip("/")
        recursive = request.query_params.get("recursive", "").lower() in ("true", "1")
        entries = answers.describe_tree(revision, folder, recursive)
        if folder and not entries:
            raise EntryNotFoundError(f"expected a folder of the repository, found {folder[:120]!a}")
        return JSONResponse(entries, headers={"X-Repo-Commit": revision.id})

    async def paths_info(self, request: Request) -> Response:
        revision = self.repository(request).revision(request.path_params["revision"])
        body = await _read_body(request)
        if request.headers.get("content-type", "").startswith("application/json"):
            paths = _list(json.loads(body), "paths", str)
        else:
            paths = parse_qs(body.decode("utf-8", "replace")).get("paths", [])
        entries = []
        for path in [str(path).strip("/") for path in paths]:
            if path in revision.files:
                entries.append(answers.describe_file(path, revision.files[path]))
            elif any(file.startswith(f"{path}/") for file in revision.files):
                entries.append(answers.describe_folder(path, revision))
        return JSONResponse(entries)

    def resolve(self, request: Request) -> Response:
        """A file, whole or a range of it. Its ETag is the hash of its content, under which clients keep it."""
        repository = self.repository(request)
        revision = repository.revision(request.path_params["revision"])
        headers = {"X-Repo-Commit": revision.id}
        try:
            file = repository.file(revision, request.path_params["path"])
        except EntryNotFoundError as error:
            return _refusal(error, 404, "EntryNotFound", headers)
        headers["ETag"] = f'"{file.sha256}"'
        # The content is anybody's: no browser may take it for a page of this server.
        headers |= {"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Disposition": "attachment"}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return _File(repository.blob(file), headers=headers, media_type="application/octet-stream")

    # ---- writing

    async def create(self, request: Request) -> Response:
        repo_id = _named(await _read_json(request))
        names = {"url": f"{base_url(request)}/{repo_id}", "name": repo_id, "id": repo_id}
        try:
            await run_in_threadpool(self.hub.create, repo_id)
        except ConflictError:  # clients to whom this is fine (`exist_ok`) read the address from the refusal
            message = f"expected a new repository, found {repo_id} already"
            return JSONResponse({"error": message, **names}, 409, {"X-Error-Message": message})
        return JSONResponse(names)

    async def delete(self, request: Request) -> Response:
        await run_in_threadpool(self.hub.delete, _named(await _read_json(request)))
        return Response(status_code=204)

    async def create_tag(self, request: Request) -> Response:
        repository, body = self.repository(request), await _read_json(request)
        revision, message = request.path_params["revision"], str(body.get("message") or "")[:1000]
        await run_in_threadpool(self.hub.tag, repository.repo_id, _field(body, "tag", str), revision, message)
        return JSONResponse({})

    async def create_branch(self, request: Request) -> Response:
        repository, body = self.repository(request), await _read_json(request)
        start = str(body.get("startingPoint") or "main")
        await run_in_threadpool(self.hub.branch, repository.repo_id, request.path_params["revision"], start)
        return JSONResponse({})

    def delete_reference(self, request: Request) -> Response:
        self.hub.delete_reference(self.repository(request).repo_id, request.path_params["revision"])
        return JSONResponse({})

    async def preupload(self, request: Request) -> Response:
        """How the client should send each file, and what the branch has under its path, to skip what is unchanged."""
        repository, body = self.repository(request), await _read_json(request)
        revision = repository.revision(request.path_params["revision"])
        files = []
        for entry in _list(body, "files"):
            path, size = check_file_path(_field(entry, "path", str)), _field(entry, "size", int)
            ignored = path == LEFT_OUT and not self.allow_pickle
            if not ignored and not self.allow_pickle and (reason := why_pickle_by_name(path)):
                raise PickleRefusedError(
                    f"expected weights in .safetensors, found {path} ({reason}); save with save_pretrained, or serve "
                    "with --allow-pickle"
                )
            large, known = size > LARGE_FILE, revision.files.get(path)
            oid = None if known is None else known.sha256 if large else known.oid
            mode = "lfs" if large else "regular"
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": ignored, "oid": oid})
        return JSONResponse({"files": files, "commitOid": revision.id})

    async def upload_batch(self, request: Request) -> Response:
        """Where to upload each large file; nowhere if the repository has its content already."""
        repository, body = self.repository(request), await _read_json(request)
        objects = []
        for entry in _list(body, "objects"):
            sha256, size = _field(entry, "oid", str), _field(entry, "size", int)
            if not re.fullmatch(r"[0-9a-f]{64}", sha256) or size < 0:
                raise ValueError(f"expected a SHA-256 and a size, found {sha256[:80]!a} and {size}")
            answer: dict[str, Any] = {"oid": sha256, "size": size}
            if find_content(repository, sha256) is None:
                address = sign_upload(self.secret, base_url(request), repository, sha256, size)
                answer["actions"] = {"upload": {"href": address, "header": {}}}
            objects.append(answer)
        return JSONResponse(
            {"transfer": "basic", "objects": objects}, headers={"Content-Type": "application/vnd.git-lfs+json"}
        )

    async def upload(self, request: Request) -> Response:
        repository = self.repository(request)
        sha256, size = verify_upload(self.secret, request, repository)
        with self.hub.writing() as area:
            await receive_file(request, repository, area, sha256, size)
        return Response(headers={"ETag": f'"{sha256}"'})

    async def commit(self, request: Request) -> Response:
        repository, branch = self.repository(request), request.path_params["revision"]
        if "create_pr" in request.query_params:
            raise ValueError("expected a commit on a branch, found a pull request, which the local hub does not have")
        with self.hub.writing() as area:
            payload = CommitPayload(area)
            await receive_pieces(request, payload.feed)
            await run_in_threadpool(payload.close)
            revision = await run_in_threadpool(commit, self.hub, repository, payload, area, branch, self.allow_pickle)
            contents = [file.sha256 for file in revision.files.values()]
            await run_in_threadpool(xet.forget_sessions, repository, contents)
        address = f"{base_url(request)}/{repository.repo_id}/commit/{revision.id}"
        return JSONResponse({"success": True, "commitOid": revision.id, "commitUrl": address, "hookOutput": ""})

    # ---- writing by the Xet protocol

    def xet_token(self, request: Request) -> Response:
        grant = xet.grant_upload(self.secret, base_url(request), self.repository(request))
        headers = {
            "X-Xet-Cas-Url": str(grant["casUrl"]),
            "X-Xet-Access-Token": str(grant["accessToken"]),
            "X-Xet-Token-Expiration": str(grant["exp"]),
        }
        return JSONResponse(grant, headers=headers)

    async def xet_xorb(self, request: Request) -> Response:
        session, xorb = xet.open_session(self.secret, request, self.repository(request)), request.path_params["xorb"]
        if not re.fullmatch(r"[0-9a-f]{64}", xorb):
            raise ValueError(f"expected the hash of a xorb, found {xorb[:80]!a}")
        with self.hub.writing() as area:
            await receive_limited(request, area / xorb, xet.LARGEST_XORB)
            os.replace(area / xorb, session / xorb)
        return JSONResponse({"was_inserted": True})

    async def xet_shard(self, request: Request) -> Response:
        repository = self.repository(request)
        session = xet.open_session(self.secret, request, repository)
        shard = await _read_body(request, xet.LARGEST_SHARD)
        with self.hub.writing() as area:
            await run_in_threadpool(xet.assemble_files, repository, session, shard, area)
        return JSONResponse({"result": 1})


class _File(FileResponse):
    chunk_size = 1 << 20  # a trip to a thread for each piece: not too small


def _named(body: dict[str, Any]) -> str:
    if body.get("type") not in (None, "model"):
        raise ValueError(f"expected a repository of type model, found {body['type']!r:.60}; there are no others")
    organisation = _field(body, "organization", str) if body.get("organization") else USER
    return check_repo_id(f"{organisation}/{_field(body, 'name', str)}")


async def _read_body(request: Request, longest: int = LONGEST_BODY) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > longest:
            raise HTTPException(413, f"expected at most {longest:,} bytes, found more")
    return bytes(body)


async def _read_json(request: Request) -> dict[str, Any]:
    body = json.loads(await _read_body(request) or b"{}")
    if not isinstance(body, dict):
        raise ValueError(f"expected a JSON object, found a {type(body).__name__}")
    return body


Kind = TypeVar("Kind")


def _field(body: Any, name: str, kind: type[Kind]) -> Kind:
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"expected {name!r} in the request, a {kind.__name__}, found {value!r:.80}")
    return value


def _list(body: Any, name: str, kind: type = dict) -> list[Any]:
    values = _field(body, name, list)
    if not all(isinstance(value, kind) for value in values):
        raise ValueError(f"expected {name!r} in the request, a list of {kind.__name__}, found another")
    return values


# ---- errors, as clients understand them


def _refusal(error: Exception, status: int, code: str | None = None, headers: dict[str, str] | None = None) -> Response:
    message = str(getattr(error, "detail", error))
    # Headers are one line of ASCII; clients print them, and raise their own exception by the code.
    line = " ".join(message.encode("ascii", "backslashreplace").decode().split())[:500]
    named = {"X-Error-Code": code} if code else {}
    return JSONResponse({"error": message}, status, {"X-Error-Message": line, **named, **(headers or {})})


async def _explain(request: Request, error: Exception) -> Response:
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            # Where the hub is on this machine is nothing that a client needs to know.
            message = str(error).replace(str(request.app.state.hub.path), "the hub")
            return _refusal(kind(message), status, code)
    if isinstance(error, HTTPException):
        return _refusal(error, error.status_code)
    return _refusal(RuntimeError("the server made a mistake; its log has the details"), 500)


_STATUS: list[tuple[type[Exception], int, str | None]] = [
    (RepositoryNotFoundError, 404, "RepoNotFound"),
    (RevisionNotFoundError, 404, "RevisionNotFound"),
    (EntryNotFoundError, 404, "EntryNotFound"),
    (ConflictError, 409, None),
    (StorageError, 507, None),
    (ValueError, 400, None),
]
_HANDLERS: dict[Any, Any] = {kind: _explain for kind, _, _ in _STATUS}

__all__ = ["make_app"]
