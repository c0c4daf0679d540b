# Checks of the sources themselves as tests, label "check"; tools/checks_test.py proves that each can fail.
# Debian's Python, because Debian's numpy belongs to it.
if(EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(yeoul_check name label)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300)
endfunction()

yeoul_check(check_layers check ${Python3_EXECUTABLE} tools/check_layers.py .)
yeoul_check(check_tidy check ${Python3_EXECUTABLE} tools/check_tidy.py .)
yeoul_check(check_format check tools/check_format.sh .)
yeoul_check(checks_self_test check ${Python3_EXECUTABLE} tools/checks_test.py)
yeoul_check(check_headers_alone check ${Python3_EXECUTABLE} tools/check_tidy.py . --compile-headers ${CMAKE_CXX_COMPILER})
