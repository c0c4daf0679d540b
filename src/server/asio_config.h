#pragma once

// Included before any header of Asio. ThreadSanitizer does not know stand-alone fences, and g++
// says so with an error; the scheduler's mutex orders the same memory without them.
#ifdef __SANITIZE_THREAD__
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1
#endif
