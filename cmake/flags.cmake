# Compiler flags every target gets. Warnings are errors; floating point is exactly as written
# (no contraction: bits must not depend on the instruction set, docs/numerics.md).
add_library(yeoul_flags INTERFACE)
target_compile_options(yeoul_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wswitch -Werror
  -ffp-contract=off -fno-math-errno -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports uninitialised and overflowing accesses inside libstdc++ and Beast at -O2 that are not there.
  target_compile_options(yeoul_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds
    -Wno-restrict -Wno-dangling-pointer)
endif()
target_include_directories(yeoul_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)

if(YEOUL_SANITIZE)
  target_compile_options(yeoul_flags INTERFACE -fsanitize=${YEOUL_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(yeoul_flags INTERFACE -fsanitize=${YEOUL_SANITIZE})
endif()
