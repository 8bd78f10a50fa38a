"""Every number of the contract, with its unit and origin."""

# Notice: the time between an event's creation and its NotBefore (E1).
FREEZE_SECONDS = 15 * 60
REBOOT_SECONDS = 15 * 60
REDEPLOY_SECONDS = 10 * 60
PREEMPT_SECONDS = 30
# Advice without an impact. Azure has published no figure; a reboot's notice is used.
RECOMMEND_SECONDS = 15 * 60
# Terminate is configured on the scale set, within these bounds (T1).
TERMINATE_MIN_SECONDS = 5 * 60
TERMINATE_MAX_SECONDS = 15 * 60
# A predicted hardware failure may be announced this far ahead (E3).
DEGRADE_MAX_SECONDS = 7 * 24 * 3600
# An upper bound for notice settings.
NOTICE_MAX_SECONDS = DEGRADE_MAX_SECONDS

# Durations of impacts, as the real service shows them in DurationInSeconds.
UNKNOWN_DURATION = -1
FREEZE_DURATION_SECONDS = 9
MIGRATION_DURATION_SECONDS = 5
DURATION_MAX_SECONDS = 24 * 3600

# An impact that its driver has had for so long without a report has failed (IL6). The limit is
# never shorter than the announced duration and a margin (E9).
IMPACT_LIMIT_SECONDS = 3600
IMPACT_MARGIN_SECONDS = 300
GIVEN_UP_IMPACTS = 256  # of a scope, whose late reports are still believed
IMPACT_LIMIT_MAX_SECONDS = 7 * 24 * 3600

# The first response may take this long; a day without polls disables the feature (M14).
ENABLE_DELAY_MAX_SECONDS = 120
IDLE_SECONDS = 24 * 3600
IDLE_MAX_SECONDS = 365 * 24 * 3600
# The time of a scope's last poll is recorded this often; a crash may lose that much.
POLL_RECORD_SECONDS = 5 * 60

# Sizes. They bound the document (ID8), a transaction, and the cost of a command.
USER_OPERATIONS = 100  # scheduled at once in a scope (E6; 10 in the preview)
PLACEMENT_GROUP_MACHINES = 100
SCOPE_MACHINES = 200
SCOPE_EVENTS = 256
APPROVAL_EVENTS = SCOPE_EVENTS  # in one approval: a client may approve all that it reads
# An event that ended may still be approved, without effect: clients repeat themselves (M12).
ENDED_SECONDS = 10 * 60
SET_INSTANCES = 1000
UPDATE_DOMAINS = 5
UPDATE_DOMAINS_MAX = 20
FAULT_DOMAINS = 5
FAULT_DOMAINS_MAX = 20
NAME_CHARACTERS = 200  # of a new name
ID_CHARACTERS = 250  # of an id; instances and impacts append to names
TEXT_CHARACTERS = 1000
TAGS = 50  # of a machine
RESOURCE_ID_CHARACTERS = 600  # kind, group and name
RESOURCE_CHARACTERS = 512 * 1024  # of a resource's document
FOLLOWING_COMMANDS = 5000  # that may follow from one resource write or removal
SUBNET_PREFIX_MIN = 16  # of the largest subnet
SUBNET_PREFIX_MAX = 29

# Rollouts.
ROLLOUT_SCOPES = 1000
ROLLOUT_BATCH = 10
ROLLOUT_BATCH_MAX = 100
# Back-off for a step whose machines are busy; doubled with each attempt.
ROLLOUT_RETRY_SECONDS = 30
ROLLOUT_RETRY_MAX_SECONDS = 15 * 60

# The metadata endpoint (M17, M18; the sizes and deadlines are those it is tested against).
HEADER_BYTES = 16 * 1024  # with the request line
HEADER_FIELDS = 64
BODY_BYTES = 64 * 1024
HEADER_SECONDS = 5  # to send the headers, from the connection or the previous response
BODY_SECONDS = 10
KEEP_SECONDS = 30  # until an idle connection is closed
WRITE_SECONDS = 10  # until a client that does not read is disconnected
CONNECTIONS = 4096
CONNECTIONS_OF_MACHINE = 16
REQUESTS_PER_SECOND = 5  # per machine, where limited (Azure's figure)
REQUESTS_BURST = 10
WAIT_MAX_SECONDS = 300  # of one long poll

# The console and the ARM port, each (IS2; they are tested against these).
PORT_HEADER_BYTES = 64 * 1024  # of a request, without its body
PORT_HEADER_FIELDS = 256
PORT_PATH_BYTES = 8 * 1024  # to decode more would take the time of several polls (IB7)
PORT_HEADER_SECONDS = 10  # for a TLS handshake, and to send the headers
PORT_BODY_SECONDS = 30  # to send the body
PORT_WRITE_SECONDS = 30  # until a client that does not read is disconnected
PORT_LINGER_SECONDS = 5  # for a client that is refused to stop sending
PORT_LINGER_BYTES = 4 * 1024 * 1024
PORT_CONNECTIONS = 512
PORT_CONNECTIONS_OF_ADDRESS = 256
READS = 100  # requests that only read, waiting or at work: more would wait too long (IB3)
READS_OF_CALLER = 50  # of one token or session, so that it leaves room for others (IB4)
PORT_DESCRIPTORS = 8  # each port may use one in so many; the rest is for machines
