"""Which job of a queue runs where and when. Pure. Empty until queues are planned."""
