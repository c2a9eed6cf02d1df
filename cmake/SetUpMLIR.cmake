# Finds MLIR 22 (packages of LLVM's own archive or a build of your own through MLIR_DIR) and defines
# autopar_mlir_library: the same as autopar_library, against the shared libMLIR and libLLVM, with
# precompiled headers for all compiler rooms.
include_guard()

if(NOT MLIR_DIR)
  find_program(LLVM_CONFIG_22 NAMES llvm-config-22)
  if(LLVM_CONFIG_22)
    execute_process(COMMAND ${LLVM_CONFIG_22} --prefix OUTPUT_VARIABLE AUTOPAR_LLVM_PREFIX
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(MLIR_DIR ${AUTOPAR_LLVM_PREFIX}/lib/cmake/mlir)
  endif()
endif()
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "AutoPar is written against MLIR 22; ${MLIR_DIR} holds ${LLVM_PACKAGE_VERSION}")
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS}) # read by mlir_tablegen
set(AUTOPAR_LLVM_TOOLS_DIR ${LLVM_TOOLS_BINARY_DIR})
separate_arguments(AUTOPAR_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

add_library(AutoParMLIR INTERFACE)
target_include_directories(AutoParMLIR SYSTEM INTERFACE $<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS}>
                           $<BUILD_INTERFACE:${MLIR_INCLUDE_DIRS}>)
target_compile_definitions(AutoParMLIR INTERFACE ${AUTOPAR_LLVM_DEFINITIONS})
target_compile_options(AutoParMLIR INTERFACE $<BUILD_INTERFACE:-fno-exceptions>)
target_link_libraries(AutoParMLIR INTERFACE MLIR LLVM)
# libMLIR.so is not on the loader's default path.
target_link_options(AutoParMLIR INTERFACE -Wl,-rpath,${LLVM_LIBRARY_DIR})
install(TARGETS AutoParMLIR EXPORT AutoParTargets)

# Nearly every compiler file reads the autopar dialect, which takes some 2.5 s to parse; many that make kernels read the
# dialects of loops and of GPUs (up to 25 s) and LLVM's own passes (7 s).
set(AUTOPAR_COMPILER_HEADERS
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h> <mlir/IR/IRMapping.h> <mlir/IR/SymbolTable.h> <mlir/Pass/Pass.h>
  <mlir/Pass/PassManager.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Transforms/GreedyPatternRewriteDriver.h> <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Interfaces/InferTypeOpInterface.h> <llvm/ADT/STLExtras.h> <llvm/ADT/StringExtras.h>
  <llvm/ADT/DenseMap.h> <llvm/ADT/MapVector.h> <llvm/ADT/TypeSwitch.h> <llvm/Support/FormatVariadic.h>
  <map> <set> <string> <vector> <functional> <memory> <optional>
  <autopar/Dialect/AutoPar/IR/AutoPar.h>)
set(AUTOPAR_KERNEL_HEADERS
  <llvm/IR/IRBuilder.h> <llvm/Passes/PassBuilder.h>
  <mlir/Dialect/GPU/IR/GPUDialect.h> <mlir/Dialect/LLVMIR/NVVMDialect.h> <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h> <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/Vector/IR/VectorOps.h>)
set(AUTOPAR_DIALECT_TARGETS AutoParInterfacesIncGen AutoParDialectIncGen)
autopar_precompiled_header(AutoParCompilerHeaders ${AUTOPAR_COMPILER_HEADERS}
                           LINK AutoParMLIR DEPENDS ${AUTOPAR_DIALECT_TARGETS})
autopar_precompiled_header(AutoParKernelHeaders ${AUTOPAR_COMPILER_HEADERS} ${AUTOPAR_KERNEL_HEADERS}
                           LINK AutoParMLIR DEPENDS ${AUTOPAR_DIALECT_TARGETS})
if(AUTOPAR_BUILD_TESTS)
  autopar_precompiled_header(AutoParCompilerTestHeaders ${AUTOPAR_COMPILER_HEADERS} <gtest/gtest.h>
                             LINK AutoParMLIR GTest::gtest DEPENDS ${AUTOPAR_DIALECT_TARGETS})
endif()

# autopar_mlir_library(NAME src... [LINK libs...] [DEPENDS targets...] [HEADERS header])
function(autopar_mlir_library name)
  cmake_parse_arguments(ARG "" "HEADERS" "LINK;DEPENDS" HEADERS AutoParCompilerHeaders ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PUBLIC AutoParMLIR ${ARG_LINK})
  autopar_precompile(${name} ${ARG_HEADERS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  install(TARGETS ${name} EXPORT AutoParTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# Compiler commands make and drop millions of small pieces: planning a deep model takes a fifth less
# time and a quarter less memory than with the allocator of glibc.
find_library(TCMALLOC_LIBRARY NAMES tcmalloc_minimal libtcmalloc_minimal.so.4)
if(TCMALLOC_LIBRARY)
  message(STATUS "Compiler commands allocate with ${TCMALLOC_LIBRARY}")
else()
  message(STATUS "Compiler commands allocate with the C library: tcmalloc_minimal was not found")
endif()

# autopar_mlir_tool(NAME src... [LINK libs...]): a compiler command in build/bin.
function(autopar_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE AutoParMLIR ${ARG_LINK})
  if(TCMALLOC_LIBRARY)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/lib/Base/HugePages.cpp)
    target_link_libraries(${name} PRIVATE ${TCMALLOC_LIBRARY})
  endif()
  autopar_precompile(${name} AutoParCompilerHeaders)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT commands)
endfunction()

# autopar_mlir_unittest(NAME src... [LINK libs...]): a gtest program that sees the compiler.
function(autopar_mlir_unittest name)
  autopar_unittest(${name} ${ARGN} HEADERS AutoParCompilerTestHeaders)
  target_link_libraries(${name} PRIVATE AutoParMLIR)
endfunction()
