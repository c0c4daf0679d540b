# Cross build for aarch64 with g++ 12: libraries from tools/aarch64_sysroot.sh, programs run under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# The sysroot holds libraries only; libc and libstdc++ are the cross compiler's own.
set(YEOUL_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot)
get_filename_component(YEOUL_SYSROOT ${YEOUL_SYSROOT} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${YEOUL_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(YEOUL_SYSROOT_LIBRARIES ${YEOUL_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_CXX_FLAGS_INIT "-isystem ${YEOUL_SYSROOT}/usr/include -isystem ${YEOUL_SYSROOT}/usr/include/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${YEOUL_SYSROOT_LIBRARIES} -Wl,-rpath-link,${YEOUL_SYSROOT_LIBRARIES}")

set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${YEOUL_SYSROOT_LIBRARIES})
