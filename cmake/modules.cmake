# Kernels of one instruction set are files of their own with flags of their own (docs/decisions/0006).
# Removes from the list those of other architectures.
function(yeoul_isa_sources list_name)
  set(sources ${${list_name}})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_neon\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cc$")
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64")
    list(FILTER sources EXCLUDE REGEX "_neon\\.cc$")
  endif()
  # g++ 12 calls the undefined registers inside its own intrinsics uninitialised.
  set(quiet $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
  foreach(source ${sources})
    if(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-O3;${quiet};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vbmi;-mavx512vnni;-mavx512bf16;-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-O3;${quiet};-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_neon\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-O3")
    endif()
  endforeach()
  set(${list_name} ${sources} PARENT_SCOPE)
endfunction()

# yeoul_module(NAME [DEPS module...] [LIBS target...])
#   src/NAME/**/*.cc without tests  ->  static library yeoul_NAME
#   src/NAME/**/*_test.cc           ->  test program NAME_test, label "unit"
function(yeoul_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.h)
  set(test_sources ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER test_sources INCLUDE REGEX "_test\\.cc$")
  yeoul_isa_sources(sources)
  list(TRANSFORM ARG_DEPS PREPEND yeoul_)
  if(sources)
    add_library(yeoul_${name} STATIC ${sources} ${headers})
    target_link_libraries(yeoul_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS} yeoul_flags)
  else()
    add_library(yeoul_${name} INTERFACE)
    target_link_libraries(yeoul_${name} INTERFACE ${ARG_DEPS} ${ARG_LIBS} yeoul_flags)
  endif()
  if(YEOUL_TESTS AND test_sources)
    yeoul_test(${name}_test LABEL unit SOURCES ${test_sources} LIBS yeoul_${name})
  endif()
endfunction()

# What the dev preset builds for `make test`: every program labelled unit or property.
add_custom_target(sanitized_tests)
# Every fuzz target, for tools/run_fuzzers.py.
add_custom_target(fuzzers)

# Instrumented for threads or emulated, programs take so many times longer.
set(YEOUL_PATIENCE 1)
if(YEOUL_SANITIZE MATCHES "thread" OR CMAKE_CROSSCOMPILING)
  set(YEOUL_PATIENCE 8)
endif()

# yeoul_timeout(TEST SECONDS): of the release build on a busy machine.
function(yeoul_timeout test seconds)
  math(EXPR seconds "${seconds} * ${YEOUL_PATIENCE}")
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

# yeoul_test(NAME LABEL label SOURCES file... LIBS target... [TIMEOUT seconds]): one gtest program, one ctest case.
# Tests include what stands under tests/ by its path there; they run in the repository root and find their data
# relative to it.
function(yeoul_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} yeoul_flags GTest::gmock
    GTest::gtest_main ${RAPIDCHECK_LIBRARY})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  # A fixed seed: a property that fails in CI fails the same way everywhere.
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL}
    ENVIRONMENT "RC_PARAMS=seed=20261130")
  yeoul_timeout(${name} ${ARG_TIMEOUT})
  if(ARG_LABEL MATCHES "^(unit|property)$")
    add_dependencies(sanitized_tests ${name})
  endif()
endfunction()
