"""`bulkhead tenant`: a tenant's life, from the command line.

actions        the parser above the others
create, listing, describe, acceptdata, delete   one action each, with its parser and its request
waiting        waits that show what they wait for
confirmation   asks a person to type a tenant's name
"""
