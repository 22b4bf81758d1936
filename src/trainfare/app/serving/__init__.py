"""Use cases of a server: who may come in, what is uploaded, and the work that goes on without a request."""
