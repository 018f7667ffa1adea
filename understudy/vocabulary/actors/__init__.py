"""Words of the actor system: messages that actors and their senders agree on, and events about actors.

An actor's mailbox takes a message as the overflow rule here says. A sender gets a reply to a query. Supervisors,
dead letters and the life of actors are published as system events; a user subscribes to them, and an event stream
hands them out. Nothing here sends or receives; the actors floor does.
"""
