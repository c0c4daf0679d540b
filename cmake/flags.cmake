# Compiler flags every target gets. Warnings are errors; floating point is exactly as written
# (no contraction: bits must not depend on the instruction set, docs/numerics.md).
add_library(yeoul_flags INTERFACE)
target_compile_options(yeoul_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wswitch -Werror
  # A designated initialiser names what differs from the defaults; the rest is meant to be left out.
  -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports uninitialised and overflowing accesses inside libstdc++ and Beast at -O2 that are not there.
  target_compile_options(yeoul_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds
    -Wno-restrict -Wno-dangling-pointer)
else()
  # clang 19 blames the caller for a deprecated function inside libstdc++ 12's stable_sort; and to it
  # -Wconversion includes changes of sign, which to g++ it does not. DCHECK pastes a comma the way
  # both compilers understand.
  target_compile_options(yeoul_flags INTERFACE -Wno-deprecated-declarations -Wno-sign-conversion
    -Wno-gnu-zero-variadic-macro-arguments)
endif()
target_include_directories(yeoul_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)

if(YEOUL_SANITIZE)
  target_compile_options(yeoul_flags INTERFACE -fsanitize=${YEOUL_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(yeoul_flags INTERFACE -fsanitize=${YEOUL_SANITIZE})
endif()
