"""Sends a message by the operator's mail server: smtp:// (with STARTTLS where it is offered) or smtps://."""

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import unquote, urlsplit

from trainfare.errors import ExternalError, UsageError

TIMEOUT_SECONDS = 15.0


def send_mail(
    server: str, *, sender: str, to: Sequence[str], subject: str, text: str, number: str, password: str | None = None
) -> None:
    """Send a text. `number` makes the id of the message, so that a copy can be recognised."""
    parts = urlsplit(server)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise UsageError(f"{server!r} is not a mail server such as smtp://localhost:25.", field="mail_server")
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, ", ".join(to), " ".join(subject.split())
    message["Date"], message["Message-ID"] = formatdate(), f"<{number}@trainfare>"
    message.set_content(text)
    try:
        with _connected(parts.scheme, parts.hostname, parts.port) as smtp:
            if parts.scheme == "smtp" and smtp.has_extn("starttls"):
                smtp.starttls(context=ssl.create_default_context())
                smtp.ehlo()
            if parts.username and password:
                if parts.scheme == "smtp" and not isinstance(smtp.sock, ssl.SSLSocket):
                    raise UsageError(
                        "The mail server offers no encryption, so no password is sent.", field="mail_server"
                    )
                smtp.login(unquote(parts.username), password)
            smtp.send_message(message, from_addr=sender, to_addrs=list(to))
    except (OSError, smtplib.SMTPException) as error:
        raise ExternalError(f"The mail server did not take the message: {error}.") from error


def _connected(scheme: str, host: str, port: int | None) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(
            host, port or 465, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context(), local_hostname="trainfare"
        )
    smtp = smtplib.SMTP(host, port or 25, timeout=TIMEOUT_SECONDS, local_hostname="trainfare")
    smtp.ehlo()
    return smtp
