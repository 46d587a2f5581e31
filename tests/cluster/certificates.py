"""Certificates for tests: an authority, and what it signs."""

import datetime as dt
import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = dt.timedelta(days=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority of one test run."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The certificate of the authority."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, folder: Path, user: str, group: str) -> tuple[Path, Path]:
        """Write `client.crt` and `client.key` of a user, as Kubernetes reads them."""
        name = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, user)]
        return self._issue(folder / "client", name, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def server(self, folder: Path, *names: str) -> tuple[Path, Path]:
        """Write `server.crt` and `server.key` for host names and addresses."""
        subject = [(NameOID.COMMON_NAME, names[0])]
        return self._issue(folder / "server", subject, ExtendedKeyUsageOID.SERVER_AUTH, _alternatives(names))

    def _issue(
        self,
        path: Path,
        name: list[tuple[x509.ObjectIdentifier, str]],
        usage: x509.ObjectIdentifier,
        alternatives: Sequence[x509.GeneralName],
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self.certificate.subject, key).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return _written(path, key, builder.sign(self.key, hashes.SHA256()))


def authority(name: str = "tests") -> Authority:
    """Make a new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name([(NameOID.COMMON_NAME, name)])
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    builder = _builder(subject, subject, key).add_extension(constraints, critical=True)
    return Authority(key=key, certificate=builder.sign(key, hashes.SHA256()))


def self_signed(path: Path, *names: str) -> tuple[Path, Path]:
    """Write the certificate of a server that trusts itself, as PATH.crt and PATH.key.

    kube-apiserver would make one with an RSA key, which takes a twentieth of its time: each client connects anew.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name([(NameOID.COMMON_NAME, names[0])])
    builder = _builder(subject, subject, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
    return _written(path, key, builder.sign(key, hashes.SHA256()))


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        is_address = name.replace(".", "").isdigit()
        found.append(x509.IPAddress(ipaddress.ip_address(name)) if is_address else x509.DNSName(name))
    return found


def _written(path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> tuple[Path, Path]:
    _private(path.with_suffix(".key"), key)
    path.with_suffix(".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path.with_suffix(".crt"), path.with_suffix(".key")


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + _VALID)


def _name(parts: list[tuple[x509.ObjectIdentifier, str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


def _private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(pem)
