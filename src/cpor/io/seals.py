"""Vouching for a file: a digest of its content, sealed with this account's key or signed with an SSH key.

The account's key is made when first needed and never leaves its folder, so a seal proves that this account
wrote the content. A signature (Ed25519) proves it to other accounts, which list the signer's public key.
"""

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from cpor.errors import InvalidSettingError, MissingExtraError

ACCOUNT = "account"
"""In place of a public key: sealed with the account's own key."""

_CONTEXT = b"cpor seal 1 "
"""Before the digest in what is signed: a signature made for another purpose is none of ours."""


class Seal(BaseModel):
    """Digest of a content and the person that vouches for it.

    Attributes:
        digest: SHA-256 of the content, in hexadecimal digits.
        key: `account`, or the public key of the signature as OpenSSH writes it.
        value: HMAC-SHA256 or Ed25519 signature of the digest, in hexadecimal digits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str
    key: str
    value: str


def digest_of(content: object) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def config_folder() -> Path:
    """Folder of this account's key and of the known signers."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "cpor"


def known_signers_file() -> Path:
    """Public keys that this account trusts, one a line as in an OpenSSH `.pub` file."""
    return config_folder() / "known_signers"


def seal_here(digest: str) -> Seal | None:
    """Seal with the account's key, which is made if there is none; None where it cannot be kept."""
    key = _account_key(make=True)
    return None if key is None else Seal(digest=digest, key=ACCOUNT, value=_mac(key, digest))


def sign(digest: str, key_file: Path) -> Seal:
    """Sign a digest with an Ed25519 key, as `ssh-keygen -t ed25519 -N '' -f FILE` writes it."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise MissingExtraError("signing needs cryptography: pip install 'cpor-grasp[sign]'") from None
    remedy = f"make one with: ssh-keygen -t ed25519 -N '' -f {key_file}"
    try:
        key = serialization.load_ssh_private_key(key_file.read_bytes(), password=None)
    except OSError as problem:
        raise InvalidSettingError(f"cannot read the key {key_file}: {problem.strerror}; {remedy}") from None
    except (ValueError, TypeError):
        raise InvalidSettingError(f"{key_file} is no SSH private key without password; {remedy}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidSettingError(f"{key_file} is no Ed25519 key; {remedy}")
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    public = key.public_key().public_bytes(*form).decode()
    return Seal(digest=digest, key=public, value=key.sign(_CONTEXT + digest.encode()).hex())


def why_unknown(seal: Seal | None, digest: str) -> str | None:
    """Why a seal proves nothing about a content; None where this account or a known signer vouches for it."""
    if seal is None:
        return "nothing says who made it"
    if seal.digest != digest:
        return "it was changed after it was sealed"
    if seal.key == ACCOUNT:
        key = _account_key(make=False)
        same = key is not None and hmac.compare_digest(_mac(key, digest), seal.value)
        return None if same else "another account or machine sealed it"
    if not _is_known(seal.key):
        return f"its signer is not listed in {known_signers_file()}"
    return _check_signature(seal)


def _mac(key: bytes, digest: str) -> str:
    return hmac.new(key, _CONTEXT + digest.encode(), hashlib.sha256).hexdigest()


def _account_key(make: bool) -> bytes | None:
    """The account's secret key; made with access for its owner alone."""
    path = config_folder() / "seal.key"
    if not path.exists() and make:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_hex(32))
            os.link(draft, path)  # fails where another process was faster: its key counts
        except FileExistsError:
            pass
        except OSError:
            return None
        finally:
            with suppress(OSError):
                draft.unlink()
    try:
        key = bytes.fromhex(path.read_text())
    except (OSError, ValueError):
        return None
    return key if len(key) == 32 else None


def _is_known(public: str) -> bool:
    try:
        lines = known_signers_file().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    # Kind and key; the rest of a line is a comment.
    return public.split()[:2] in [line.split()[:2] for line in lines if line.strip()]


def _check_signature(seal: Seal) -> str | None:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    except ImportError:
        return "its signature needs cryptography: pip install 'cpor-grasp[sign]'"
    with suppress(ValueError, InvalidSignature):
        key = load_ssh_public_key(seal.key.encode())
        if isinstance(key, Ed25519PublicKey):
            key.verify(bytes.fromhex(seal.value), _CONTEXT + seal.digest.encode())
            return None
    return "its signature is wrong"
