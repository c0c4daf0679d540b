# include() this where a test or a tool wants yeoul_sparse_checkpoint.
if(NOT TARGET yeoul_sparse_checkpoint)
  add_library(yeoul_sparse_checkpoint STATIC ${CMAKE_CURRENT_LIST_DIR}/sparse_checkpoint.cc)
  target_include_directories(yeoul_sparse_checkpoint PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(yeoul_sparse_checkpoint PUBLIC yeoul_checkpoint)
endif()
