# Finds the text of the ONNX proto and generates C++ from it: the newest that the build machine has,
# from the Python package `onnx` or from libonnx-dev. The package is renamed, so that a process that also
# holds another copy of ONNX has no two descriptions under one name.
set(AUTOPAR_ONNX_PYTHON "" CACHE STRING "Python whose package onnx provides onnx-ml.proto (default: python3, then .venv)")

set(AUTOPAR_ONNX_PROTO_TEXT "")
foreach(python ${AUTOPAR_ONNX_PYTHON} python3 ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  if(NOT AUTOPAR_ONNX_PROTO_TEXT)
    execute_process(
      COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
      OUTPUT_VARIABLE onnx_package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND EXISTS ${onnx_package}/onnx-ml.proto)
      set(AUTOPAR_ONNX_PROTO_TEXT ${onnx_package}/onnx-ml.proto)
    endif()
  endif()
endforeach()
foreach(candidate /usr/include/onnx/onnx-ml.proto /usr/include/onnx/onnx.proto)
  if(NOT AUTOPAR_ONNX_PROTO_TEXT AND EXISTS ${candidate})
    set(AUTOPAR_ONNX_PROTO_TEXT ${candidate})
  endif()
endforeach()
if(NOT AUTOPAR_ONNX_PROTO_TEXT)
  message(FATAL_ERROR "no ONNX proto found: install the Python package onnx (and set AUTOPAR_ONNX_PYTHON) or libonnx-dev")
endif()
file(STRINGS ${AUTOPAR_ONNX_PROTO_TEXT} onnx_multi_device REGEX "^message ShardingSpecProto")
if(NOT onnx_multi_device)
  message(FATAL_ERROR "${AUTOPAR_ONNX_PROTO_TEXT} is older than ONNX 1.18 (IR 11): run scripts/install-packages, which makes "
                      ".venv with a newer one, or install the Python package onnx and set AUTOPAR_ONNX_PYTHON")
endif()
message(STATUS "ONNX proto: ${AUTOPAR_ONNX_PROTO_TEXT}")

find_package(Protobuf REQUIRED)
set(onnx_proto_dir ${CMAKE_CURRENT_BINARY_DIR}/proto)
file(READ ${AUTOPAR_ONNX_PROTO_TEXT} onnx_proto_text)
string(REGEX REPLACE "\npackage [a-z_]+;" "\npackage autopar_onnx;" onnx_proto_text "${onnx_proto_text}")
# Full messages: absent fields of newer protos are looked up by name, left-out data by unknown fields.
string(REPLACE "option optimize_for = LITE_RUNTIME;" "" onnx_proto_text "${onnx_proto_text}")
file(CONFIGURE OUTPUT ${onnx_proto_dir}/autopar-onnx.proto CONTENT "${onnx_proto_text}" @ONLY)
add_custom_command(
  OUTPUT ${onnx_proto_dir}/autopar-onnx.pb.cc ${onnx_proto_dir}/autopar-onnx.pb.h
  COMMAND protobuf::protoc --proto_path=${onnx_proto_dir} --cpp_out=${onnx_proto_dir} ${onnx_proto_dir}/autopar-onnx.proto
  DEPENDS ${onnx_proto_dir}/autopar-onnx.proto)
add_library(AutoParOnnxProto STATIC ${onnx_proto_dir}/autopar-onnx.pb.cc)
target_include_directories(AutoParOnnxProto SYSTEM PUBLIC $<BUILD_INTERFACE:${onnx_proto_dir}>)
target_link_libraries(AutoParOnnxProto PUBLIC protobuf::libprotobuf)
install(TARGETS AutoParOnnxProto EXPORT AutoParTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
