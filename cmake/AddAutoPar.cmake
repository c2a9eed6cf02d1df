# The functions with which every room declares its targets: one spelling, one set of flags.
include_guard()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # By the headers that the compiler names, since running the preprocessor first takes up to a second per file.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(LLD_PROGRAM NAMES ld.lld-22 ld.lld)
  if(LLD_PROGRAM)
    add_link_options(--ld-path=${LLD_PROGRAM})
  endif()
endif()

# A deprecated name stays a warning: the C++ library's own templates use some.
set(AUTOPAR_WARNINGS -Wall -Wextra -Wno-unused-parameter -Wno-error=deprecated-declarations)

# autopar_precompiled_header(NAME header... [LINK libs...] [DEPENDS targets...]): headers that are parsed once for
# all targets that take NAME with autopar_precompile. A file sees them without asking: it includes what it needs all the
# same, and nothing of a room that its own may not see.
function(autopar_precompiled_header name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/pch/${name}.cpp "// anchors the precompiled header\n")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/pch/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  autopar_precompile_options(${name})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# autopar_precompile(TARGET HEADER): compiles TARGET with what autopar_precompiled_header(HEADER ...) has parsed.
function(autopar_precompile name header)
  autopar_precompile_options(${name})
  target_precompile_headers(${name} REUSE_FROM ${header})
endfunction()

function(autopar_precompile_options name)
  # -fPIC as in the libraries, not -fPIE: a program shares its headers with them.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC ${AUTOPAR_WARNINGS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang") # else copies from the compiler cache are refused for their age
    target_compile_options(${name} PRIVATE "SHELL:$<$<COMPILE_LANGUAGE:CXX>:-Xclang -fno-pch-timestamp>")
  endif()
endfunction()

set(AUTOPAR_STANDARD_HEADERS <algorithm> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <functional> <limits>
  <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <vector>)
autopar_precompiled_header(AutoParStandardHeaders ${AUTOPAR_STANDARD_HEADERS})
if(AUTOPAR_BUILD_TESTS)
  autopar_precompiled_header(AutoParTestHeaders ${AUTOPAR_STANDARD_HEADERS} <fstream> <random> <gtest/gtest.h> LINK GTest::gtest)
endif()

# autopar_library(NAME src... [LINK libs...]): a static, position-independent room of plain C++.
function(autopar_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  autopar_precompile(${name} AutoParStandardHeaders)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  install(TARGETS ${name} EXPORT AutoParTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# autopar_tool(NAME src... [LINK libs...]): a command in build/bin.
function(autopar_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  autopar_precompile(${name} AutoParStandardHeaders)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT commands)
endfunction()

# autopar_unittest(NAME src... [LINK libs...] [HEADERS header]): a gtest program known to ctest, whose tests have a
# time limit each.
function(autopar_unittest name)
  cmake_parse_arguments(ARG "" "HEADERS" "LINK" HEADERS AutoParTestHeaders ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unittests)
  autopar_precompile(${name} ${ARG_HEADERS})
  # Tests fill in the fields that they are about.
  target_compile_options(${name} PRIVATE -Wno-missing-field-initializers)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} AutoParTestMain)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
