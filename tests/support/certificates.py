"""Certificates for servers and clients of tests."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path, name: str = "cert") -> tuple[Path, Path]:
    """One that nobody but its holder has signed, for this machine; and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(  # noqa: S603 a fixed command
        ["openssl", "req",  # noqa: S607 wherever it is installed
         "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key
