"""The server: pages for people, a REST API for programs. A route parses, calls one use case of `app/`, and renders.

application.py  what all requests have in common: sign-in, headers, errors, metrics
visitors.py     who sends a request, in which role
api/            `/api/v1`, one file per resource
pages/          one file per page; `templates/` and `static/` belong to them
server.py       listens, and prints the link that opens the page
"""
