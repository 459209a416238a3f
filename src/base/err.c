#include "base/err.h"

const char *tarry_strerror(int err)
{
    switch (err) {
    case TARRY_OK:
        return "ok";
#define X(code, name, text)                                                                        \
    case name:                                                                                     \
        return text;
        TR_ERR_LIST(X)
#undef X
    default:
        return "unknown error";
    }
}

const char *tarry_errname(int err)
{
    switch (err) {
    case TARRY_OK:
        return "TARRY_OK";
#define X(code, name, text)                                                                        \
    case name:                                                                                     \
        return #name;
        TR_ERR_LIST(X)
#undef X
    default:
        return "TARRY_EUNKNOWN";
    }
}
