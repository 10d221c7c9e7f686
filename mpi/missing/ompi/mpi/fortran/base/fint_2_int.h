/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What Open MPI's header of operations includes, and the -dev package of Open MPI 4 does not have:
 * how a number of Fortran's becomes one of C's. They are the same where both have as many bytes.
 */
#ifndef PMX_MPI_FINT_2_INT_H
#define PMX_MPI_FINT_2_INT_H

#if OMPI_SIZEOF_FORTRAN_INTEGER != SIZEOF_INT
#error "Open MPI was built for Fortran integers that are not of the size of int"
#endif
#define OMPI_INT_2_FINT(number) (number)
#define OMPI_FINT_2_INT(number) (number)

#endif
