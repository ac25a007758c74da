# Flags of the whole house, and the two functions that make a room and a test.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)

add_library(ebb_flags INTERFACE)
target_compile_options(ebb_flags INTERFACE
  -Wall -Wextra -Werror -Wformat -Wformat-security -fstack-protector-strong
  -fno-omit-frame-pointer)
target_link_options(ebb_flags INTERFACE -Wl,-z,relro,-z,now)
target_include_directories(ebb_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(EBB_SANITIZE)
  target_compile_options(ebb_flags INTERFACE -fsanitize=${EBB_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(ebb_flags INTERFACE -fsanitize=${EBB_SANITIZE})
else()
  target_compile_definitions(ebb_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
endif()
if(EBB_PLANTED)
  target_compile_definitions(ebb_flags INTERFACE EBB_PLANTED_BUILD=1)
endif()
# -Wno-error: g++ 12 warns falsely about inlined standard containers under sanitizers.
if(EBB_SANITIZE)
  target_compile_options(ebb_flags INTERFACE -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow)
endif()

# ebb_room(NAME [FILES...] LINKS target...): a library of all *.cpp of the current folder (or of FILES).
# Its LINKS are the layering: a room can include only what it links.
function(ebb_room name)
  cmake_parse_arguments(ROOM "" "" "FILES;LINKS" ${ARGN})
  if(NOT ROOM_FILES)
    file(GLOB ROOM_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(ROOM_FILES)
    add_library(${name} STATIC ${ROOM_FILES})
    target_link_libraries(${name} PUBLIC ebb_flags ${ROOM_LINKS})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ebb_flags ${ROOM_LINKS})
  endif()
endfunction()

# ebb_test(NAME LABELS label... FILES file... LINKS target...): one doctest program, one ctest entry.
function(ebb_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "FILES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${T_FILES} ${CMAKE_SOURCE_DIR}/tests/main.cpp)
  target_link_libraries(${name} PRIVATE ebb_flags doctest::doctest ${T_LINKS})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
endfunction()
