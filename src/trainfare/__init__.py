"""Which machine should I train this on, how long will it take, what will it cost?"""

__version__ = "0.1.0"
