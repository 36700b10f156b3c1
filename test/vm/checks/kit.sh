# The conformance kit with the engine bwrap, as root or as a user, in the way named.
. /payload/checks/lib.sh
show=80 tests "${1:-login}" plugins/bwrap 'TestConformance$'
finish
