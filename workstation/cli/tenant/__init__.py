"""`bulkhead tenant`: the life of a tenant, from the command line.

actions        the parser above the others
create, listing, describe, why, acceptdata, delete   one action each, with its parser and its request
reading        lists of the host, as far as this user may read them
waiting        waits that show what they wait for
confirmation   asks the user to type a tenant's name
"""
