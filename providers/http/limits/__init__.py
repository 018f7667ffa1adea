"""The limits of one key at one provider, which all calls of the process with that key keep together.

A client asks `Limits` for the `Limiter` of the key in use, and enters its `call`. The limiter waits for a place
among the calls in flight, and then, in the order of arrival, until `Rates` lets a request go. What the answer says of the limits
goes back into `Rates`, which decides and reads no clock. `Limiter` is the only one that waits.
"""
