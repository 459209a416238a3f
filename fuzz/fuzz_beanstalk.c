/* The beanstalk port, by what clients may send. */

#include "fuzz/session.h"
#include "proto/beanstalk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_session(&tr_bs_proto, data, size);
}
