"""Cells: what stands behind an address. A cell is a Pykka actor that outlives the failures of its behaviour.

A message comes in by `tell` or `ask`. The cell puts it into an `Envelope`, with its deadline, its context and, for an ask,
the promise of the reply, and the envelope into its `MailboxQueue`. If no thread runs the cell, it is submitted to the pool.
The thread takes one envelope after another, those of the system queue first, and has the behaviour handle each; when the
mailbox is empty, it leaves. A behaviour that raises is dropped, and the next message meets a new one.

Every message goes out through `Cell.finish` with exactly one `Fate`: handled, failed, expired, cancelled, or dead because
the mailbox was full or closed. Its promise is set there, so each ask gets one answer. Messages of users that were not
handled are `dead_letters`, counted and logged. The `event_stream` of a system passes events to those who subscribed: each
of the `subscriptions` has a bounded buffer of its own, a function in a cell, an actor in its mailbox, so a slow subscriber
delays nobody.

A `SeatedCell` handles several messages at once, as many as it has `seats`, and keeps the others in line. It has no
behaviour and no thread: a sender that gets a seat takes the turn itself or lends it a thread. The law of fates is the same.
"""
