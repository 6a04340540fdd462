# The answers of an engine; all engines use the same words.
#
# An engine never waits and never asks anybody. It runs until it knows, until its budget of steps is used, or until it
# needs a transition that only a model written in Python can give. In the last two cases it can be called again.

cdef enum Answer:
    ANSWER_RUNNING = 0          # the budget of steps is used; call again
    ANSWER_LEGAL = 1            # a linearization was found: proof
    ANSWER_ILLEGAL = 2          # there is none
    ANSWER_ASKS = 3             # Model.asked_state and asked_kind; answer by model_answer and call again
    ANSWER_MEMORY = 4           # the limit of memory is reached, or there is none left
    ANSWER_NOT_SHOWN = 5        # witness only: the order of the revisions is no linearization; says nothing else

cdef enum:
    NONE = -1                   # no operation, node or row
