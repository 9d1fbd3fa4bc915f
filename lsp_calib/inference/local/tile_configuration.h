/* Included before every file of llama.cpp where the compiler is GCC 12 or older: its `_tile_loadconfig` names 8 of
   the 64 bytes that the instruction reads, so that the stores of the others are removed (llama.cpp issue 20824). */
#if defined(__AMX_TILE__) && defined(__GNUC__)
#include <immintrin.h>

static inline __attribute__((always_inline)) void lsp_calib_tile_loadconfig(const void *configuration)
{
    __asm__ volatile("ldtilecfg\t%X0" : : "m"(*(const char(*)[64])configuration));
}

#undef _tile_loadconfig
#define _tile_loadconfig lsp_calib_tile_loadconfig
#endif
