"""The limits of webhooks, each with its unit and reason."""

SUBSCRIPTIONS = 16  # each is a task, and a thread while it sends
NAME_CHARACTERS = 60
URL_CHARACTERS = 2048
SECRET_MIN_CHARACTERS = 16  # a shorter secret can be guessed from one signed message
SECRET_MAX_CHARACTERS = 256
SECRET_BYTES = 32  # of a generated secret: the length of the digest
CREATION_BYTES = 8  # random; tells subscriptions apart that had the same name

# Timeouts of a request, in real time, even if the fleet's clock is virtual.
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 15.0  # DNS look-up, connection, TLS, request and response headers
RESPONSE_BYTES = 64 * 1024  # with its headers; the rest of a response is not read
THREADS_OF_ONE = 4  # subscription: a DNS look-up that hangs blocks its thread for as long
THREADS = THREADS_OF_ONE * SUBSCRIPTIONS

# Exponential back-off.
FIRST_BACKOFF_SECONDS = 1.0
REJECTED_BACKOFF_SECONDS = 60.0  # after most 4xx answers the receiver needs a fix first
LONGEST_BACKOFF_SECONDS = 5 * 60.0
RETRY_AFTER_MAX_SECONDS = 3600.0  # an upper bound for the receiver's Retry-After
GIVE_UP_SECONDS = 24 * 3600.0  # of failed attempts for one message

PAGE_LINES = 1000  # journal lines per query; also how far the stored cursor may lag
DIGEST_DIGITS = 8  # of a line, in the id of its message
REMEMBERED_EVENTS = 4096  # events whose type and NotBefore are cached; under 1 MB
ERROR_CHARACTERS = 300  # of a reason

RESCAN_SECONDS = 1.0  # interval to look for subscriptions of other processes
