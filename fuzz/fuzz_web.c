/* The HTTP port: sessions and routes; fuzz_http.c is for its parser alone, by what clients may
 * send. */

#include "fuzz/session.h"
#include "proto/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_session(&tr_http_proto, data, size);
}
