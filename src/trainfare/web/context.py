"""What routes get from the application that they belong to."""

from typing import Annotated

from fastapi import Depends, Request

from trainfare.settings import Settings


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


ServerSettings = Annotated[Settings, Depends(_settings)]
"""The settings of the server."""
