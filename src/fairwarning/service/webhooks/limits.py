"""Every number of the webhooks, with its unit and its reason."""

SUBSCRIPTIONS = 16  # each is a task, and a thread while it sends
NAME_CHARACTERS = 60
URL_CHARACTERS = 2048
SECRET_MIN_CHARACTERS = 16  # fewer can be guessed from one signed message
SECRET_MAX_CHARACTERS = 256
SECRET_BYTES = 32  # of one that we make: as long as the digest it is for

# One request. The outside world runs in real time, whatever the fleet's clock does.
CONNECT_SECONDS = 5.0
WHOLE_SECONDS = 15.0  # name look-up, connection, TLS, request and the answer's head
ANSWER_BYTES = 64 * 1024  # more of an answer is not read
THREADS = (
    4 * SUBSCRIPTIONS
)  # a look-up that hangs keeps its thread; the others must not wait for it

# Trying again: twice as long each time, between these.
FIRST_PAUSE_SECONDS = 1.0
REFUSED_PAUSE_SECONDS = 60.0  # after a 4xx somebody has to mend something; haste does not help
LONGEST_PAUSE_SECONDS = 5 * 60.0
RETRY_AFTER_MAX_SECONDS = 3600.0  # a receiver may ask for more time, but not for ever
GIVE_UP_SECONDS = 24 * 3600.0  # of failure with one message

PAGE_LINES = 1000  # of the journal, read at once; also how far a cursor may lag behind unwritten
REMEMBERED_EVENTS = 4096  # whose type and NotBefore need not be looked up; under 1 MB
DEAD_LETTERS = 20  # shown of those given up
ERROR_CHARACTERS = 300

LOOK_SECONDS = 1.0  # until it is seen what other processes have done to subscriptions
