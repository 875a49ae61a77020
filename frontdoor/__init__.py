"""The proxy's other half: tells HAProxy which tenants there are, while it runs. It holds no key and sees no request.

    Services `plane-proxy` ──> routes (pure) ──> haproxy (pure): what to say ──> runtime: the socket of the HAProxy beside it

HAProxy passes TLS through by the name in the ClientHello. This process runs beside it in the same pod, and may only list
Services (docs/decisions/0035). Without it HAProxy goes on with what it knows.
"""
