"""The verbs of a store, written once: for callers that block and for tasks, whatever carries what they ask.

`blocking` and `awaited` have the verbs, `lease` and `watch` what two of them give back, `asked` their longer questions.
A carrier is a class with these verbs: face/node and face/aio in the process of a node, client/sync and client/aio in
another. It says how a request travels, and nothing here knows more of it.
"""
